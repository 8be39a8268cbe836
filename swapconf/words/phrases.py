"""PHRASE: English text that remembers its template and values, so that the rim can show it in another language.

A phrase is a `str`: below the rim it is compared, sorted, logged and cached as English. What is shown to a person goes
through `show` once. Catalogues are gettext's, in ``locale/``; `scripts/build_translations.py` makes them.
"""

from __future__ import annotations

import gettext
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

Value: TypeAlias = "str | int | float"

ENGLISH = "en"
LANGUAGES = (ENGLISH, "zh")

_FOLDER = Path(__file__).with_name("locale")
_shown_in = ENGLISH


class Phrase(str):
    """``template``: with the names of ``values`` in braces. ``many``: the template where ``values["count"]`` is not
    one, "" where there is no plural."""

    template: str
    many: str
    values: Mapping[str, Value]

    def __str__(self) -> str:
        """Itself, so that an exception made of a phrase gives it back."""
        return self


def phrase(template: str, /, **values: object) -> Phrase:
    """``phrase("layer {index} is not there", index=3)``. ``template`` is written in place, where the catalogue's
    builder finds it, or marked by `mark`. Raises KeyError for a name without a value."""
    return _phrase(template, "", values)


def plural(count: int, one: str, many: str, /, **values: object) -> Phrase:
    """``plural(num, "{count} file", "{count} files")``."""
    return _phrase(one, many, {"count": count, **values})


def joined(separator: str, parts: Iterable[str]) -> Phrase:
    """``separator.join(parts)``, of which each part, and the separator, can still be shown in another language."""
    values = {f"part{index}": part for index, part in enumerate(parts)}
    template = "{separator}".join(f"{{{name}}}" for name in values)
    return _phrase(template, "", {"separator": phrase(separator), **values} if values else {})


def mark(text: str) -> str:
    """The same text, which is shown by `phrase` elsewhere: for names and tables that are filled on import."""
    return text


_SEPARATORS = (mark(", "), mark("; "), mark(": "))  # so that the catalogue has what `joined` is called with


def use(language: str) -> None:
    """In what `show` shows from now on, one of `LANGUAGES`; English at the start, whatever the locale."""
    global _shown_in
    _shown_in = language


def in_use() -> str:
    return _shown_in


def show(text: str) -> str:
    """The text in the language in use; what is no phrase, and what the catalogue lacks, as it is."""
    if _shown_in == ENGLISH or not isinstance(text, Phrase) or not text:  # "" names gettext's own header
        return text
    catalogue = _catalogue(_shown_in)
    count = text.values.get("count")
    template = (
        catalogue.ngettext(text.template, text.many, count)
        if text.many and isinstance(count, int)
        else catalogue.gettext(text.template)
    )
    return template.format(
        **{name: show(value) if isinstance(value, str) else value for name, value in text.values.items()}
    )


def with_values(text: str, change: Callable[[str], str]) -> str:
    """A phrase with each of its values that is a text, and no phrase itself, changed; any other text as it is."""
    if not isinstance(text, Phrase):
        return text
    return _phrase(
        text.template,
        text.many,
        {
            name: with_values(value, change)
            if isinstance(value, Phrase)
            else change(value)
            if isinstance(value, str)
            else value
            for name, value in text.values.items()
        },
    )


def translated(text: str) -> str:
    """A text that is no template, as the paragraphs of a help, in the language in use."""
    return text if _shown_in == ENGLISH or not text else _catalogue(_shown_in).gettext(text)


def packed(text: str) -> Any:
    """What JSON can hold of a text, for `unpacked`: a string, or a list if it is a phrase."""
    if not isinstance(text, Phrase):
        return text
    return [
        text.template,
        text.many,
        {name: packed(value) if isinstance(value, str) else value for name, value in text.values.items()},
    ]


def unpacked(data: Any) -> str:
    """Raises ValueError, KeyError or TypeError for what `packed` never gave."""
    if isinstance(data, str):
        return data
    template, many, values = data
    return _phrase(
        template,
        many,
        {name: unpacked(value) if isinstance(value, (str, list)) else value for name, value in values.items()},
    )


def _phrase(template: str, many: str, values: Mapping[str, object]) -> Phrase:
    # paths and errors as text: a phrase crosses processes, and str() keeps the phrase that an error is made of
    plain = {name: value if isinstance(value, (str, int, float)) else str(value) for name, value in values.items()}
    chosen = many if many and plain["count"] != 1 else template
    made = Phrase(chosen.format(**plain))
    made.template, made.many, made.values = template, many, plain
    return made


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    return gettext.translation("swapconf", _FOLDER, [language], fallback=True)
