"""Grids and random draws of W&B's sweep grammar, where the program `foretime` is missing."""
from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

from .errors import UsageError


def _nest(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for keys, value in values.items():
        place = nested
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = value
    return nested


def _leaves(
    parameters: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    for name, entry in parameters.items():
        if "parameters" in entry:
            yield from _leaves(entry["parameters"], (*above, name))
        else:
            yield (*above, name), entry


def combinations(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the combinations of a grid, the last parameter fastest."""
    leaves = sorted(_leaves(config["parameters"]))
    choices = []
    for keys, entry in leaves:
        if "values" in entry:
            choices.append(list(entry["values"]))
        elif "value" in entry:
            choices.append([entry["value"]])
        elif isinstance(entry.get("min"), int) and isinstance(entry.get("max"), int):
            choices.append(list(range(entry["min"], entry["max"] + 1)))
        else:
            raise UsageError(f"sweep: {'.'.join(keys)}: a grid needs value, values, or whole min and max")
    for combination in itertools.product(*choices):
        yield _nest(dict(zip((keys for keys, _ in leaves), combination)))


def _quantum(value: float, entry: Mapping[str, Any]) -> float:
    step = float(entry.get("q", 1))
    return round(value / step) * step


def draw(entry: Mapping[str, Any], chance: random.Random) -> Any:
    """Draws a value of a parameter."""
    if "value" in entry:
        return entry["value"]
    if "values" in entry:
        return chance.choices(entry["values"], entry.get("probabilities"))[0]
    kind = entry.get("distribution") or (
        "int_uniform" if isinstance(entry.get("min"), int) and isinstance(entry.get("max"), int) else "uniform"
    )
    base = kind[2:] if kind.startswith("q_") else kind
    low, high = entry.get("min", 0), entry.get("max", 1)
    value: float
    if base == "int_uniform":
        return chance.randint(low, high)
    if base == "uniform":
        value = chance.uniform(low, high)
    elif base == "log_uniform":
        value = math.exp(chance.uniform(low, high))
    elif base in ("log_uniform_values", "inv_log_uniform_values"):
        value = math.exp(chance.uniform(math.log(low), math.log(high)))
    elif base == "inv_log_uniform":
        value = math.exp(-chance.uniform(low, high))
    elif base in ("normal", "log_normal"):
        value = chance.gauss(entry.get("mu", 0), entry.get("sigma", 1))
        value = math.exp(value) if base == "log_normal" else value
    elif base == "beta":
        value = chance.betavariate(entry.get("a", 1), entry.get("b", 1))
    else:
        raise UsageError(f"sweep: found distribution {kind!r}, which needs the program foretime")
    return _quantum(value, entry) if kind.startswith("q_") else value


def draws(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields random trials without end."""
    chance = random.Random(config.get("seed", 1))
    while True:
        yield _nest({keys: draw(entry, chance) for keys, entry in _leaves(config["parameters"])})
