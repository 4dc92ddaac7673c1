"""Which files Python code of Foretime replaces: as the program's commands do (base/output_target.h)."""
from __future__ import annotations

import os
from collections.abc import Iterable

from .library import StrPath

_PIECE = 1 << 16
_BUNDLE = b'"foretime-bundle"'


def expect_replaceable(
    path: StrPath, inputs: Iterable[StrPath] = (), bundle: bool = False, force: bool = False
) -> None:
    """Raises FileExistsError unless `path` may be written: nothing is there, an empty file, or, for a `bundle`, a bundle that is none of
    `inputs`. `force`: any file, but no folder."""
    name = os.fspath(path)
    if os.path.isdir(name):
        raise FileExistsError(f"{name}: is a folder, expected a file to write")
    if force or not os.path.exists(name) or not os.path.isfile(name):
        return
    for source in inputs:
        if os.path.exists(source) and os.path.samefile(name, source):
            raise FileExistsError(f"{name}: is what is read; name another file, or replace it by force")
    with open(name, "rb") as file:
        start = file.read(_PIECE)
    if start and not (bundle and start[8:9] == b"{" and _BUNDLE in start):
        raise FileExistsError(
            f"{name}: exists and is {'no bundle' if bundle else 'replaced by force only'}; name another file"
        )
