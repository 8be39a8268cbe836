"""Why no trace of the whole model can be grown."""


class CannotGrow(ValueError):
    """The text says why; the figures of the folded runs stand."""
