"""TEMPLATES -> HTML: what all pages share: how text gets into them, and what they may load, which is nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from swapconf.report.findings_text import printable
from swapconf.words.phrases import Phrase, phrase, show


def template(name: str) -> Template:
    """A template in which nothing of a value is markup, and that fails where a value is missing."""
    templates = Environment(
        loader=PackageLoader("swapconf.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    templates.globals["phrase"] = _phrase
    return templates.get_template(name)


def policy(scripts: Iterable[str]) -> str:
    """The Content-Security-Policy. plotly.js sets styles, and draws pictures to save as data."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{value}'" for value in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _visible(value: object) -> object:
    """What a name holds besides text (a change of writing direction, a control character) is spelled out."""
    return printable(value) if type(value) is str or isinstance(value, Phrase) else value


def _phrase(text: str, /, **values: object) -> str:
    """A text of the page in the language in use, where the page's scripts or its head take it as it is."""
    return show(phrase(text, **values))
