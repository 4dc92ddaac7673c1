"""Classes and functions of other packages that have no effect here."""
from __future__ import annotations

from typing import Any


class Ignored:
    """Takes any arguments; every method takes any arguments and returns the object."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.__dict__["arguments"], self.__dict__["options"] = arguments, options

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments, **options: self


_made: dict[tuple[str, str], type[Ignored]] = {}


def ignored_class(module: str, name: str) -> Any:
    """Returns the class of this name, of no effect. AttributeError: names that begin with _."""
    if name.startswith("_"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return _made.setdefault((module, name), type(name, (Ignored,), {"__module__": module, "__doc__": "Has no effect."}))
