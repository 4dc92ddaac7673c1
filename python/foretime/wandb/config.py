"""`wandb.config`: the parameters of a run. Values of the sweep win over defaults."""
from __future__ import annotations

import importlib
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional

from ..settings_file import parse_settings
from .errors import ConfigError, UsageError


def _of_file(path: str) -> dict[str, Any]:
    """Returns the content of a YAML or JSON file; values of W&B's form {"value": v} are unwrapped."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    if path.endswith(".json"):
        content = json.loads(text)
    else:
        try:
            content = importlib.import_module("yaml").safe_load(text)
        except ModuleNotFoundError:
            content = parse_settings(text, path)
    if not isinstance(content, Mapping):
        raise UsageError(f"config: {path}: expected a map of parameters")
    return {
        key: value["value"]
        if isinstance(value, Mapping) and "value" in value and set(value) <= {"value", "desc"}
        else value
        for key, value in content.items()
        if key != "wandb_version"
    }


def items_of(values: Any) -> dict[str, Any]:
    """Returns what config= and update() take as a map: a map, an argparse.Namespace, flags of absl, a dataclass, or the path of a file."""
    if values is None:
        return {}
    if isinstance(values, str):
        return _of_file(values)
    if isinstance(values, Mapping):
        return {str(key): value for key, value in values.items()}
    flags = getattr(values, "flag_values_dict", None)
    if callable(flags):
        return dict(flags())
    if hasattr(values, "__dict__"):
        return {key: value for key, value in vars(values).items() if not key.startswith("_")}
    raise UsageError(
        f"config: found {type(values).__name__}, expected a map, an argparse.Namespace or the path of a file"
    )


class Config(Mapping[str, Any]):
    """Parameters by attribute and by key. Those of the sweep cannot be changed; a change of another one needs allow_val_change."""

    def __init__(self, changed: Optional[Callable[[], None]] = None) -> None:
        self.__dict__.update(
            _values={}, _locked=set(), _changed=changed or (lambda: None), _say=lambda text, once: None, _free=False
        )

    def __repr__(self) -> str:
        return str(self._values)

    def __reduce__(self) -> Any:
        return _copy_of, (dict(self._values),)  # copies and pickles are not those of a run

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"config has no parameter {name!r}; it has {', '.join(values) or 'none'}")

    def __setitem__(self, name: str, value: Any) -> None:
        self._set({name: value}, self._free)

    def __setattr__(self, name: str, value: Any) -> None:
        self._set({name: value}, self._free)

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def _set(self, values: Mapping[str, Any], may_change: bool) -> None:
        for name, value in values.items():
            if name in self._locked:
                if self._differs(self._values[name], value):
                    self._say(
                        f"config: {name}: the sweep chose {self._values[name]!r}, which {value!r} does not replace",
                        f"locked {name}",
                    )
                continue
            if name in self._values and not may_change and self._differs(self._values[name], value):
                raise ConfigError(
                    f"Attempted to change value of key {name!r} from {self._values[name]!r} to {value!r}\n"
                    "If you really want to do this, pass allow_val_change=True to config.update()"
                )
            self._values[name] = value
        self._changed()

    @staticmethod
    def _differs(first: Any, second: Any) -> bool:
        try:
            return bool(first != second)
        except (TypeError, ValueError):  # arrays
            return True

    def update(self, values: Any, allow_val_change: Optional[bool] = None) -> None:
        """Sets several parameters: those of a map, an argparse.Namespace, flags of absl, or a file."""
        self._set(items_of(values), bool(allow_val_change) or self._free)

    def setdefaults(self, values: Any) -> None:
        """Sets the parameters that have no value."""
        self._set({name: value for name, value in items_of(values).items() if name not in self._values}, True)

    def as_dict(self) -> dict[str, Any]:
        """Returns a copy as a dict."""
        return dict(self._values)

    def persist(self) -> None:
        """Does nothing: every change is kept."""

    def _lock(self, values: Mapping[str, Any]) -> None:
        """Sets the sweep's parameters, which nothing replaces."""
        self._values.update(values)
        self._locked.update(values)
        self._changed()

    def _bind(self, say: Callable[[str, str], None], free: bool) -> None:
        """`say` prints a notice; `free`: values may change (allow_val_change of init)."""
        self.__dict__.update(_say=say, _free=free)


def _copy_of(values: dict[str, Any]) -> Config:
    config = Config()
    config._set(values, True)
    config._bind(lambda text, once: None, True)
    return config
