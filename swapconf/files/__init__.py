"""How files are opened, written and read as tables, whatever is in them."""
