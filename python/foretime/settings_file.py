"""Reads the settings that Foretime writes (config.yaml): sections by indentation, values in one line or as a list of items."""
from __future__ import annotations

import json
import re
from typing import Any, Union

from .library import StrPath

_WORDS = {"true": True, "false": False, "null": None, "~": None}


def _value(text: str) -> Any:
    """A scalar or a list of scalars."""
    if text.startswith("[") and text.endswith("]"):
        items = re.findall(r'"(?:[^"\\]|\\.)*"|[^,\s][^,]*', text[1:-1])
        return [_value(item.strip()) for item in items]
    if text.startswith('"'):
        return json.loads(text)
    if text in _WORDS:
        return _WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def read_settings(path: StrPath) -> dict[str, Any]:
    """All settings of a run by section: {"optimizer": {"learning_rate": 0.001, …}, …}. Of files that Foretime wrote; settings files of
    people may be any YAML, which `foretime config FILE` turns into this form."""
    with open(path, encoding="utf-8") as file:
        return parse_settings(file.read(), str(path))


def parse_settings(text: str, origin: str = "settings") -> dict[str, Any]:
    """As read_settings, of the text. ValueError names the line that is not of that form."""
    top: dict[str, Any] = {}
    open_sections: list[tuple[int, Union[dict[str, Any], list[Any]]]] = [(-1, top)]
    last: tuple[dict[str, Any], str] = (top, "")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        indent, body = len(line) - len(line.lstrip(" ")), line.strip()
        if body.startswith("- "):  # an item of the list that the last key opened
            section, key = last
            if not isinstance(section.get(key), list):
                section[key] = []
            section[key].append(_value(body[2:].strip()))
            continue
        match = re.fullmatch(r"([\w.]+):(?:\s+(.*))?", body)
        while open_sections[-1][0] >= indent:
            open_sections.pop()
        parent = open_sections[-1][1]
        if match is None or not isinstance(parent, dict):
            raise ValueError(f"{origin}:{number}: {body!r}, expected settings as foretime writes them")
        key, value = match.group(1), match.group(2)
        if value is None:
            parent[key] = {}
            open_sections.append((indent, parent[key]))
        else:
            parent[key] = _value(value)
        last = (parent, key)
    return top


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"optimizer.learning_rate": 0.001, …}"""
    values: dict[str, Any] = {}
    for key, value in settings.items():
        values.update(flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return values
