"""The program `foretime`: where it is, and calls of it."""
from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from .library import StrPath

Settings = Union[StrPath, Mapping[str, Any]]


class CommandError(RuntimeError):
    """A command that failed: `exit_code` (docs/reference/exit-codes.md), `message` (what it wrote to standard error), `command`."""

    def __init__(self, command: Sequence[str], exit_code: int, message: str) -> None:
        super().__init__(f"{message or ' '.join(command)} (exit code {exit_code})")
        self.command = list(command)
        self.exit_code = exit_code
        self.message = message


def find_program() -> str:
    """The path of `foretime`: what FORETIME_PROGRAM names, the one installed with this package, the one in PATH, that of the checkout's
    build. FileNotFoundError says what was looked for."""
    named = os.environ.get("FORETIME_PROGRAM")
    if named:
        if not os.access(named, os.X_OK):
            raise FileNotFoundError(f"FORETIME_PROGRAM: {named}: no such program")
        return named
    package = pathlib.Path(__file__).resolve().parent
    for path in (
        package.parents[2] / ".." / "bin" / "foretime",
        None,
        package.parents[1] / "build" / "release" / "cli" / "foretime",
    ):
        found = (
            shutil.which("foretime")
            if path is None
            else str(path.resolve())
            if os.access(path, os.X_OK) and path.is_file()
            else None
        )
        if found:
            return found
    raise FileNotFoundError(
        "foretime: no such program in PATH. Training and the queue need Foretime itself, which the wheel does not "
        "have: build or install it (docs/tutorials/first-model.md), or set FORETIME_PROGRAM to its path"
    )


def _json_of(value: Any) -> Any:
    """What JSON has for a value that it does not know: the number or the list of NumPy's, the text of a path."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__}, expected a text, a number, a bool or a list of them")


def text_of(value: Any, key: str = "") -> str:
    """A setting's value as the command line takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{key}: {value}, expected a finite number")
        return repr(float(value))  # NumPy writes its type around it
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, (list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=_json_of)
    try:
        return text_of(_json_of(value), key)
    except TypeError as error:
        raise TypeError(f"{key}: {error}") from None


def words_of(overrides: Optional[Mapping[str, Any]], more: Mapping[str, Any]) -> list[str]:
    """key=value words; maps inside are the dotted keys of a section."""
    words = []

    def add(prefix: str, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            if isinstance(value, Mapping):
                add(f"{prefix}{key}.", value)
            else:
                words.append(f"{prefix}{key}={text_of(value, prefix + key)}")

    add("", overrides or {})
    add("", more)
    return words


@contextlib.contextmanager
def as_file(settings: Settings, name: str) -> Iterator[str]:
    """The path of a settings or sweep file; of a map, a file that lives as long as the block. Relative paths in it start at the working
    folder either way."""
    if isinstance(settings, Mapping):
        with tempfile.NamedTemporaryFile(
            "w", prefix=f".{name}-", suffix=".yaml", dir=os.getcwd(), encoding="utf-8"
        ) as file:
            json.dump(settings, file, ensure_ascii=False, allow_nan=False, default=_json_of)
            file.flush()
            try:
                yield file.name
            except CommandError as error:  # nobody finds the file later
                words = [name if word == file.name else word for word in error.command]
                raise CommandError(words, error.exit_code, error.message.replace(file.name, name)) from None
    else:
        yield os.fspath(settings)


def mpi_environment() -> dict[str, str]:
    """This process's environment, in which Open MPI's mpirun also starts as root."""
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    return {**os.environ, **allowed}


def run(
    *words: str,
    program: Optional[str] = None,
    launcher: Sequence[str] = (),
    check: bool = True,
    environment: Optional[Mapping[str, str]] = None,
) -> str:
    """Standard output of `foretime WORDS`; CommandError where it fails."""
    command = [*launcher, program or find_program(), *words]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
        env=None if environment is None else {**os.environ, **environment},
    )
    if check and done.returncode != 0:
        raise error_of(command, done.returncode, done.stderr)
    return done.stdout.decode(errors="replace")


def command(*words: StrPath) -> str:
    """Runs any command of `foretime`, such as command("data", "pack", "measured/*.npz", "-o", "all.foretime"), and returns what it prints;
    CommandError where it fails."""
    return run(*(os.fspath(word) for word in words))


def error_of(command: Sequence[str], code: int, errors: bytes) -> CommandError:
    """What a command's last lines on standard error say."""
    lines = errors.decode(errors="replace").strip().splitlines()
    return CommandError(command, code, "\n".join(lines[-20:]).removeprefix("foretime: "))
