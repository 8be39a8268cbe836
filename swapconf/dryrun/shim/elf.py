"""FILE -> LIBRARY: what a shared library needs, defines and mentions, read from its ELF tables without running it."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from swapconf.dryrun import DryRunError
from swapconf.words.phrases import phrase

_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section, value, size
_WEAK = 2
_UNDEFINED = 0
_FIRST_NAMED_VERSION = 2  # 0 and 1 in .gnu.version: a local and an unversioned global symbol


class ElfMachine(Enum):
    """A processor architecture that MindSpore has an Ascend plugin for; the value is its name in a target triple."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"


_MACHINES = {62: ElfMachine.X86_64, 183: ElfMachine.AARCH64}  # e_machine


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """``search``: the folders of its run path. ``needed``: sonames.

    ``undefined``: what it needs from others, without the names that ask for a version. ``weak``: what it uses if it is
    there.
    """

    path: Path
    machine: ElfMachine
    search: tuple[Path, ...]
    needed: tuple[str, ...]
    undefined: frozenset[str]
    weak: frozenset[str]
    defined: frozenset[str]


def machine_of(path: Path) -> ElfMachine | None:
    """The architecture of a 64-bit little-endian ELF file; None for any other file."""
    with path.open("rb") as file:
        head = file.read(20)
    if len(head) < 20 or head[:6] != b"\x7fELF\x02\x01":
        return None
    return _MACHINES.get(int.from_bytes(head[18:20], "little"))


def read_library(path: Path) -> Library:
    """Raises DryRunError if the file is no shared library of a known architecture."""
    machine = machine_of(path)
    if machine is None:
        raise DryRunError(
            phrase("{file} is no ELF library for x86-64 or aarch64; is the MindSpore installation damaged?", file=path)
        )
    with _opened(path) as elf:
        names = _section(elf, ".dynstr")
        search = [
            folder
            for tag in ("DT_RPATH", "DT_RUNPATH")
            for text in _tags(elf, tag, names)
            for folder in text.split(":")
            if folder
        ]
        undefined, weak, defined = _symbols(elf, names)
        return Library(
            path=path,
            machine=machine,
            search=tuple(Path(folder.replace("$ORIGIN", str(path.parent))) for folder in search),
            needed=_tags(elf, "DT_NEEDED", names),
            undefined=undefined,
            weak=weak,
            defined=defined,
        )


def read_strings(path: Path, pattern: re.Pattern[bytes]) -> frozenset[str]:
    """The string constants of a library that match ``pattern``, or whose end does."""
    at_the_end = re.compile(rb"(?:" + pattern.pattern + rb")(?=\0)")
    with _opened(path) as elf:
        return frozenset(found.decode("ascii") for found in at_the_end.findall(_section(elf, ".rodata")))


def _tags(elf: ELFFile, tag: str, names: bytes) -> tuple[str, ...]:
    dynamic = elf.get_section_by_name(".dynamic")
    if not isinstance(dynamic, DynamicSection):
        return ()
    return tuple(_name(names, entry["d_val"]) for entry in dynamic.iter_tags(tag))


def _name(names: bytes, offset: int) -> str:
    return names[offset : names.index(b"\0", offset)].decode("utf-8", "surrogateescape")


def _symbols(elf: ELFFile, names: bytes) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Undefined, weakly undefined and defined names.

    pyelftools makes an object of each symbol; there are 200,000 of them, and unpacking the table takes a tenth of that.
    """
    undefined: set[str] = set()
    weak: set[str] = set()
    defined: set[str] = set()
    versions = _section(elf, ".gnu.version")
    for index, (offset, info, _, section, _, _) in enumerate(_SYMBOL.iter_unpack(_section(elf, ".dynsym"))):
        name = _name(names, offset)
        version = int.from_bytes(versions[2 * index : 2 * index + 2], "little") & 0x7FFF
        if section != _UNDEFINED:
            defined.add(name)
        elif version < _FIRST_NAMED_VERSION:
            (weak if info >> 4 == _WEAK else undefined).add(name)
    return frozenset(undefined), frozenset(weak), frozenset(defined)


def _section(elf: ELFFile, name: str) -> bytes:
    section = elf.get_section_by_name(name)
    return section.data() if section is not None else b""


@contextmanager
def _opened(path: Path) -> Iterator[ELFFile]:
    with path.open("rb") as file:
        try:
            yield ELFFile(file)
        except (ELFError, struct.error, ValueError, OSError) as error:  # OSError: an offset that no file has
            raise DryRunError(
                phrase("{file} cannot be read as an ELF library ({error}); is it damaged?", file=path, error=error)
            ) from error
