"""`wandb.summary`: the last or best value of each metric, which is the result of a trial."""
from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, Callable, Optional


class Summary(MutableMapping[str, Any]):
    """A map whose values are also attributes. Values that a program sets are kept until the metric is logged again."""

    def __init__(self, changed: Optional[Callable[[], None]] = None) -> None:
        self.__dict__.update(_values={}, _changed=changed or (lambda: None))

    def __repr__(self) -> str:
        return str(self._values)

    def __reduce__(self) -> Any:
        return dict, (self.as_dict(),)

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
        raise AttributeError(f"summary has no {name!r}")

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name] = value
        self._changed()

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]
        self._changed()

    def as_dict(self) -> dict[str, Any]:
        """Returns a copy as a dict."""
        return dict(self._values)
