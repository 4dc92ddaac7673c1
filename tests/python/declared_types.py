"""Checks that what calls of the Python package return has the type that they declare: annotations are of use only where they are true."""
import collections.abc
import functools
import inspect
import types
import typing

import numpy as np


def agrees(value, declared):
    """Whether a value is of a declared type, as far as that can be seen without using up an iterator."""
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if declared is typing.Any or isinstance(declared, typing.TypeVar):
        return True
    if declared is None or declared is type(None):
        return value is None
    if origin is typing.Union:
        return any(agrees(value, one) for one in arguments)
    if origin is np.ndarray:
        kind = typing.get_args(arguments[1])[0]
        return isinstance(value, np.ndarray) and (kind is typing.Any or issubclass(value.dtype.type, kind))
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(arguments) and all(map(agrees, value, arguments))
    if origin in (list, collections.abc.Sequence):
        return isinstance(value, origin) and all(agrees(one, arguments[0]) for one in value)
    if origin in (dict, collections.abc.Mapping):
        return isinstance(value, origin) and all(
            agrees(key, arguments[0]) and agrees(one, arguments[1]) for key, one in value.items()
        )
    found = origin or declared
    return not isinstance(found, type) or isinstance(value, found)


class Watch:
    """While it lasts, each public function, method and property of a package raises TypeError where its answer is of another type than
    its annotation says. `seen` names those that were called, `all` those that are watched."""

    def __init__(self, package):
        self.names = {name: getattr(package, name) for name in package.__all__ if name != "__version__"}
        self.seen, self.all, self._undo = set(), set(), []
        for name, entry in self.names.items():
            if inspect.isclass(entry):
                for member, found in list(vars(entry).items()):
                    if not member.startswith("_") or member in ("__len__", "__iter__", "__getitem__"):
                        self._watch(entry, member, found, f"{name}.{member}")
            elif inspect.isfunction(entry):
                self._watch(package, name, entry, name)

    def _watch(self, owner, name, found, path):
        if isinstance(found, property):
            changed = property(self._checked(found.fget, path))
        elif isinstance(found, classmethod):
            changed = classmethod(self._checked(found.__func__, path))
        elif isinstance(found, types.FunctionType) and not hasattr(
            found, "__wrapped__"
        ):  # a context manager is no iterator
            changed = self._checked(found, path)
        else:
            return
        self.all.add(path)
        self._undo.append((owner, name, found))
        setattr(owner, name, changed)

    def _checked(self, function, path):
        hints = typing.get_type_hints(function, localns=self.names)
        if "return" not in hints:
            raise TypeError(f"{path}: declares no type of what it returns")

        @functools.wraps(function)
        def call(*arguments, **more):
            value = function(*arguments, **more)
            self.seen.add(path)
            if not agrees(value, hints["return"]):
                raise TypeError(f"{path}: returned {value!r:.200}, declared {hints['return']}")
            return value

        return call

    def end(self):
        for owner, name, found in self._undo:
            setattr(owner, name, found)
