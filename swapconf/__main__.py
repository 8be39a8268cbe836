"""``python -m swapconf``."""

from swapconf.cli.main import main

main(prog_name="swapconf")
