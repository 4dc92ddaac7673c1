"""`python3 -m foretime.compat` prints the folder for PYTHONPATH; with a program and its arguments, runs it with that folder."""
from __future__ import annotations

import os
import sys

from . import FOLDER


def main(words: list[str]) -> None:
    if not words:
        print(FOLDER)
        return
    path = [*filter(None, [os.environ.get("PYTHONPATH")]), str(FOLDER)]
    os.execve(sys.executable, [sys.executable, *words], {**os.environ, "PYTHONPATH": os.pathsep.join(path)})


if __name__ == "__main__":
    main(sys.argv[1:])
