"""TEXT -> FILE: replace a file as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def replace_text(path: str | Path, text: str) -> None:
    """Write ``text`` as UTF-8 to ``path``, which afterwards holds all of it, or what it held before.

    Line ends stay as they are in ``text``; permissions and a byte order mark of the old file are kept. A symlink is
    followed only to a file in its own folder or below. Raises OSError when the file cannot be written, PermissionError
    for a symlink that leads elsewhere.
    """
    target = _target(Path(path))
    old = target.read_bytes()[:3] if target.exists() else b""
    mark = b"\xef\xbb\xbf" if old == b"\xef\xbb\xbf" else b""
    mode = target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask()
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as stream:
        temporary = Path(stream.name)
        try:
            stream.write(mark + text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
            os.chmod(temporary, mode)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _target(path: Path) -> Path:
    if not path.is_symlink():
        return path
    folder, target = path.parent.resolve(), path.resolve()
    if not target.is_relative_to(folder):
        raise PermissionError(f"{path} is a link to a file outside its folder, {target}; name that file itself")
    return target


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
