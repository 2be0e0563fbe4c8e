"""The choice of the cuts of a query: for each of its inputs one of those that it has.

A vector has a cut for each input, in their order; the options of an input are in the order of the operators,
the earliest first, which is taken among equals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

Vector = tuple[str, ...]

MOST_VECTORS = 64  # that are all tried; of more inputs one after the other is improved
_EQUAL = 1e-9  # a lesser difference of the objective is one of rounding


def choose(
    options: Sequence[Sequence[str]],
    present: Sequence[str | None],
    objective: Callable[[Vector], float],
    least: float,
) -> Vector:
    """The cuts with the least objective.

    ``present`` are those that run (``None``: the input is new).  They stay unless others lower the objective
    by more than ``least``, as a share of it.
    """
    held: list[Vector] = [
        (now,) if now is not None and now in each else tuple(each)
        for each, now in zip(options, present, strict=True)
    ]
    staying = best(held, objective)
    if all(len(one) == len(other) for one, other in zip(held, options, strict=True)):
        return staying
    found = best(options, objective, staying)
    return found if objective(found) < objective(staying) * (1 - least) - _EQUAL else staying


def best(
    options: Sequence[Sequence[str]], objective: Callable[[Vector], float], begin: Vector | None = None
) -> Vector:
    """The vector with the least objective among all of at most :data:`MOST_VECTORS`.

    Of more it is one that no other cut of a single input improves, and no worse than ``begin`` and than the
    same cut for all inputs.
    """
    if math.prod(map(len, options)) <= MOST_VECTORS:
        return _least(list(product(*options)), objective)
    names = list(dict.fromkeys(name for each in options for name in each))
    uniform = [tuple(name if name in each else each[0] for each in options) for name in names]
    found = _least(uniform if begin is None else [begin, *uniform], objective)
    while (better := _improved(options, objective, found)) != found:
        found = better
    return found


def _improved(
    options: Sequence[Sequence[str]], objective: Callable[[Vector], float], found: Vector
) -> Vector:
    for place, each in enumerate(options):
        changed = [(*found[:place], name, *found[place + 1 :]) for name in each]
        found = _least([found, *changed], objective)
    return found


def _least(vectors: Sequence[Vector], objective: Callable[[Vector], float]) -> Vector:
    """The first vector that no other one is better than."""
    found, value = vectors[0], objective(vectors[0])
    for each in vectors[1:]:
        if (other := objective(each)) < value - _EQUAL:
            found, value = each, other
    return found
