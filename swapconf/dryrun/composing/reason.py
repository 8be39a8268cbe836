"""Why no trace can be composed."""


class CannotCompose(ValueError):
    """The text says why: this stage has to be run."""
