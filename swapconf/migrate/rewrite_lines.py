"""TEXT + CONFIG -> TEXT: the lines of the sections for swap and recompute, rewritten; every other byte stays.

Between legacy and mcore the lines themselves move, with their comments. Where PyNative is involved the form changes, so
the sections are written anew, and the comments that stood in them come first.
"""

from __future__ import annotations

from dataclasses import dataclass

from swapconf.config.config import Config, Dialect, RecomputeConfig, SwapOff
from swapconf.config.dialects import GRAPH_SECTIONS, PYNATIVE_SECTIONS, RECOMPUTE_KEYS, dialect_of, mcore_entries
from swapconf.config.nodes import Document, Entry
from swapconf.config.rewriting import CannotRewrite, refuse_elsewhere
from swapconf.config.yaml_lines import LineSpan, at_column, comments, has_block_value, span, split, starts_line
from swapconf.config.yaml_text import Sections, dump, recompute_sections, swap_section
from swapconf.words.phrases import phrase

# units, names and places differ between the forms, so that a comment may no longer hold
STALE = "# comments of the form before the migration; keep those that still hold:"


@dataclass(frozen=True, slots=True)
class _Edit:
    """Lines that go, and lines that come at ``place`` (a line number from 0)."""

    gone: tuple[LineSpan, ...]
    new: tuple[str, ...]
    place: int


def rewrite(text: str, document: Document, made: Config) -> str:
    """The text with ``made`` in it, in its dialect. Raises CannotRewrite."""
    refuse_elsewhere(document)
    lines = split(text)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    writer = _Writer(lines, document, made)
    edits = [edit for edit in (writer.swap(), writer.recompute()) if edit is not None]
    gone = {index for edit in edits for part in edit.gone for index in range(part.first, part.end)}
    result: list[str] = []
    for index in range(len(lines) + 1):
        for edit in edits:
            if edit.place == index:
                result += [line.rstrip("\r\n") + end for line in edit.new]
        if index < len(lines) and index not in gone:
            result.append(lines[index])
    return "".join(result)


@dataclass(frozen=True, slots=True)
class _Writer:
    lines: list[str]
    document: Document
    made: Config

    @property
    def _source(self) -> Dialect:
        return dialect_of(self.document, legacy=False)

    def swap(self) -> _Edit | None:
        old = [*self._top(PYNATIVE_SECTIONS[0]), *self._top(GRAPH_SECTIONS[0]), *mcore_entries(self.document).values()]
        if not old and isinstance(self.made.swap, SwapOff):
            return None
        gone = self._spans(old)
        moved = self._moved(old)
        if self.made.dialect is not Dialect.MCORE:
            new = (
                [f"{GRAPH_SECTIONS[0]}:", *at_column(moved[0], moved[1], 2)]
                if moved
                else self._written(swap_section(self.made), gone, 0)
            )
            return _Edit(gone, tuple(new), self._place(old, gone))
        settings = self._settings()
        inside = span(self.lines, settings)
        column = min(entry.column for entry in settings.value.entries.values()) - 1
        new = (
            at_column(moved[0], moved[1], column)
            if moved
            else self._written(swap_section(self.made)[GRAPH_SECTIONS[0]], gone, column)
        )
        return _Edit(gone, tuple(new), inside.end)

    def recompute(self) -> _Edit | None:
        pynative = self.made.dialect is Dialect.PYNATIVE
        top = [entry for name in (*PYNATIVE_SECTIONS[1:], GRAPH_SECTIONS[1]) for entry in self._top(name)]
        old = [*top, *self._in_model(RECOMPUTE_KEYS)]
        names = {entry.key for entry in old}
        nothing = not old and self.made.recompute == RecomputeConfig()
        if nothing or (not pynative and names == {GRAPH_SECTIONS[1]}):
            return None  # both dialects of graph mode read recompute_config
        gone = self._spans(old)
        return _Edit(gone, tuple(self._written(recompute_sections(self.made), gone, 0)), self._place(old, gone))

    def _top(self, name: str) -> list[Entry]:
        return [self.document.root.entries[name]] if name in self.document.root.entries else []

    def _in_model(self, keys: tuple[str, ...]) -> list[Entry]:
        model = self.document.root.get("model")
        settings = model.get("model_config") if model else None
        return [settings.entries[key] for key in keys if settings and key in settings.entries]

    def _settings(self) -> Entry:
        model = self.document.root.get("model")
        entry = model.entries.get("model_config") if model else None
        if entry is None or entry.file not in ("", self.document.file) or not has_block_value(entry):
            raise CannotRewrite(
                phrase("there is no `model.model_config` in block style, where mcore models read swap"),
                phrase("write one with a key per line"),
            )
        return entry

    def _spans(self, entries: list[Entry]) -> tuple[LineSpan, ...]:
        for entry in entries:
            if not starts_line(self.lines, entry):
                raise CannotRewrite(
                    phrase("line {line}: `{key}` stands inside another line", line=entry.line, key=entry.key),
                    phrase("give it a line of its own"),
                )
        return tuple(span(self.lines, entry) for entry in entries)

    def _place(self, old: list[Entry], gone: tuple[LineSpan, ...]) -> int:
        """Where the section stood that is replaced, else the end of the file."""
        top = [part.first for entry, part in zip(old, gone, strict=True) if entry.column == 1]
        return min(top, default=len(self.lines))

    def _moved(self, old: list[Entry]) -> tuple[list[str], int] | None:
        """The lines of a swap section as they are, and their column, when the new dialect has the same keys."""
        if self.made.dialect is Dialect.PYNATIVE or not old:
            return None
        if [entry.key for entry in old] == [GRAPH_SECTIONS[0]] and has_block_value(old[0]):
            part = span(self.lines, old[0])
            column = min(entry.column for entry in old[0].value.entries.values()) - 1
            above = at_column(self.lines[part.first : part.key], 0, column)
            return [*above, *self.lines[part.key + 1 : part.end]], column
        if all(entry.column > 1 for entry in old) and self.made.dialect is Dialect.LEGACY:
            names = {entry.key: key for key, entry in mcore_entries(self.document).items()}
            lines = []
            for entry in sorted(old, key=lambda entry: entry.line):
                part = span(self.lines, entry)
                renamed = self.lines[part.key].replace(entry.key, names[entry.key], 1)
                lines += [*self.lines[part.first : part.key], renamed, *self.lines[part.key + 1 : part.end]]
            return lines, old[0].column - 1
        return None

    def _written(self, sections: Sections, gone: tuple[LineSpan, ...], column: int) -> list[str]:
        kept = [comment for part in gone for comment in comments(self.lines[part.first : part.end])]
        inside = any(True for part in gone for _ in comments(self.lines[part.key : part.end]))
        stale = [STALE] if inside and Dialect.PYNATIVE in (self.made.dialect, self._source) else []
        return at_column([*stale, *kept, *dump(sections).splitlines()], 0, column)
