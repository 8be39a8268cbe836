"""BYTES -> BYTES: the comment that tells yaml-language-server which schema a YAML follows."""

from __future__ import annotations

import codecs
import re

# the first such comment counts; the value ends at a blank (yaml-language-server 1.25, modelineUtil)
_MODELINE = re.compile(rb"^#\s+yaml-language-server\s*:.*?\$schema=(?P<schema>\S+)", re.MULTILINE)
_HEADER = re.compile(rb"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\n|\r|\Z))*")
_BREAK = re.compile(rb"\r\n|\n|\r")


def with_modeline(content: bytes, schema: str) -> bytes:
    """The content with a modeline for this schema, and no other byte changed.

    A modeline among the comments that the file starts with gets the schema; without one, it becomes the first line,
    which ends as the file's first line does. ``schema``: a URL, or a path from the folder of the YAML, without blanks.
    """
    mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
    body = content[len(mark) :]
    header = _HEADER.match(body)
    present = _MODELINE.search(body, endpos=header.end() if header else 0)
    if present:
        start, end = present.span("schema")
        return mark + body[:start] + schema.encode() + body[end:]
    newline = _BREAK.search(body)
    ending = newline.group() if newline else b"\n"
    return mark + b"# yaml-language-server: $schema=" + schema.encode() + ending + body
