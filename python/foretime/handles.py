"""What the library opened, and calls that take arrays or texts."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from ctypes import byref, c_char_p, c_int64
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

import numpy as np
import numpy.typing as npt

from .library import Library

if TYPE_CHECKING:
    from types import TracebackType

Floats = npt.NDArray[np.float32]
Text = Union[str, bytes, bytearray, memoryview]
Self = TypeVar("Self", bound="Handle")


def as_bytes(text: Text) -> bytes:
    """UTF-8 of a text; bytes as they are. TypeError for anything else: bytes(3) would be three zeros."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, (str, bytearray, memoryview)):
        raise TypeError(f"{type(text).__name__}, expected a text: str or bytes")
    return text.encode() if isinstance(text, str) else bytes(text)


def exact(values: npt.ArrayLike, dtype: npt.DTypeLike, name: str) -> npt.NDArray[Any]:
    """The values as a contiguous array of this type; ValueError where that changes any."""
    if type(values) is np.ndarray and values.dtype == dtype and values.flags.c_contiguous:
        return values  # a third of what a small call costs above C is saved here
    given = np.asarray(values)
    with np.errstate(invalid="ignore"):  # NaN is told below
        converted = np.ascontiguousarray(given, dtype=dtype)
    if converted is not given and given.dtype != converted.dtype and not np.array_equal(given, converted):
        raise ValueError(f"{name}: {given.dtype} values that {converted.dtype} does not hold")
    return converted


class Owned:
    """A pointer of the library. It is closed with the last reference to this object, so that a call in another thread ends first."""

    __slots__ = ("pointer", "_close")

    def __init__(self, pointer: int, close: Callable[[int], None]) -> None:
        self.pointer = pointer
        self._close = close

    def __del__(self) -> None:
        self._close(self.pointer)


class Handle:
    """What the library opened, until `close` or the end of the object. Closing while another thread is in a call is allowed: that call
    ends as usual, and later ones raise ValueError."""

    def __init__(self, library: Library, pointer: int, close: Callable[[int], None]) -> None:
        self._library = library
        self._owned: Optional[Owned] = Owned(pointer, close)
        self.maker: object = None  # known by all that one model made

    def __reduce__(self) -> Any:
        raise TypeError(
            f"foretime.{type(self).__name__} cannot be pickled or copied: it is open in this process; a Model that was opened "
            "from a file can, and makes it anew"
        )

    def _use(self) -> Owned:
        """Keeps what is open alive as long as the caller holds the answer."""
        owned = self._owned
        if owned is None:
            raise ValueError(f"{type(self).__name__.lower()} is closed")
        return owned

    def close(self) -> None:
        """Closes; a second time does nothing."""
        self._owned = None

    @property
    def closed(self) -> bool:
        return self._owned is None

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def _score_rows(self, function: Callable[..., int], rows: npt.NDArray[Any]) -> Floats:
        """Scores [rows] by a function that takes an array of this type."""
        count = len(rows)
        scores = np.empty(count, np.float32)
        owned = self._use()
        status = function(owned.pointer, rows.ctypes.data, count, scores.ctypes.data)
        if status != 0:
            self._library.check(status)
        return scores

    def _score_texts(self, function: Callable[..., int], texts: Iterable[Text], outputs: int = 1) -> list[Floats]:
        """`outputs` arrays [texts] float32 by a function that takes so many."""
        if isinstance(texts, (str, bytes, bytearray, memoryview)):
            raise TypeError("one text, expected a list of texts")
        encoded = [text if type(text) is bytes else as_bytes(text) for text in texts]
        count = len(encoded)
        results: list[Floats] = [np.empty(count, np.float32) for _ in range(outputs)]
        sizes = np.array([len(text) for text in encoded], np.uintp)
        failed = c_int64(0)
        owned = self._use()
        self._library.check(
            function(
                owned.pointer,
                (c_char_p * count)(*encoded),
                sizes.ctypes.data,
                count,
                *(result.ctypes.data for result in results),
                byref(failed),
            )
        )
        return results

    def failure(self) -> str:
        """Why the first candidate without a score has none: for +inf in what this thread's last call returned."""
        return self._library.message()
