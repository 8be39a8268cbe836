"""What click says of a command line, in the language in use.

click asks gettext, which knows the locale and no `--lang`; so its modules are given a function of ours to ask. The
texts are those of click 8.1 to 8.4; one that another version words otherwise stays English.
"""

from __future__ import annotations

import gettext
from importlib import import_module

from swapconf.words.phrases import mark, translated

TEXTS = frozenset(
    {
        mark("Error: {message}"),
        mark("Try '{command} {option}' for help."),
        mark("Invalid value: {message}"),
        mark("Invalid value for {param_hint}: {message}"),
        mark("Missing argument"),
        mark("Missing option"),
        mark("Missing parameter"),
        mark("Missing parameter: {param_name}"),
        mark("Missing command."),
        mark("Choose from:\n\t{choices}"),
        mark("No such option {name!r}."),
        mark("No such option: {name}"),
        mark("No such command {name!r}."),
        mark("Did you mean {possibility}?"),
        mark("(Did you mean one of: {possibilities}?)"),
        mark("(Possible options: {possibilities})"),
        mark("Got unexpected extra argument ({args})"),
        mark("Got unexpected extra arguments ({args})"),
        mark("Option {name!r} does not take a value."),
        mark("Option {name!r} requires an argument."),
        mark("Argument {name!r} takes {nargs} values."),
        mark("{value!r} is not one of {choices}."),
        mark("{value!r} is not {choice}."),
        mark("{value!r} is not a valid {number_type}."),
        mark("{value} is not in the range {range}."),
        mark("{name} {filename!r} does not exist."),
        mark("{name} {filename!r} is a file."),
        mark("{name} {filename!r} is a directory."),
        mark("{name} {filename!r} is not readable."),
    }
)
_MODULES = ("core", "exceptions", "parser", "types")


def speak() -> None:
    """From here on click asks us; it can be said more than once."""
    for name in _MODULES:
        module = import_module(f"click.{name}")
        for asked, ours in (("_", _one), ("ngettext", _counted)):
            if getattr(module, asked, None) in (gettext.gettext, gettext.ngettext):
                setattr(module, asked, ours)


def _one(text: str) -> str:
    return translated(text) if text in TEXTS else text


def _counted(one: str, many: str, count: int) -> str:
    return _one(one if count == 1 else many)
