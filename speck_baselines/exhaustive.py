"""The best of all placements, for small problems and as the yardstick of the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from speck.errors import Fault, InvalidInput
from speck.placement.problem import Placement, Problem
from speck.placement.state import SearchState

MOST_PLACEMENTS = 300_000  # each is evaluated from the beginning
CHECKED = 256  # placements between two readings of the clock


def exhaustive(problem: Problem, is_over: Callable[[], bool] = lambda: False) -> Placement:
    """The placement with the least objective, which is its own proof.

    Raises :class:`~speck.errors.InvalidInput` for more than :data:`MOST_PLACEMENTS` placements, and when
    ``is_over`` is true before all are compared.
    """
    choices = [problem.allowed(unit) for unit in problem.units]
    count = math.prod(map(len, choices))
    if count > MOST_PLACEMENTS:
        message = (
            f"policy 'exhaustive' has {count:,} placements to compare (expected at most {MOST_PLACEMENTS:,})"
        )
        raise InvalidInput([Fault(message, field="policy")], "placement")
    state = SearchState(problem, [problem.allowed(problem.units[each])[0] for each in problem.unit_of])
    best, best_sites = math.inf, list(state.sites)
    for number, (unit, digit) in enumerate(gray_code([len(each) for each in choices])):
        if number % CHECKED == 0 and is_over():
            message = f"policy 'exhaustive' ran out of time after {number:,} of {count:,} placements"
            raise InvalidInput(
                [Fault(f"{message} (expected a smaller composition)", field="policy")], "placement"
            )
        if unit >= 0:
            state.move(unit, choices[unit][digit])
        if state.objective < best and not problem.faults(state.sites):
            best, best_sites = state.objective, list(state.sites)
    return problem.placement(best_sites, best)


def gray_code(bases: list[int]) -> Iterator[tuple[int, int]]:
    """All numbers of mixed base, each as the one digit that differs from the one before.

    Pairs of position and new digit; the first is (-1, 0) for all digits 0.  Knuth, TAOCP 7.2.1.1, H.
    """
    places = [place for place, base in enumerate(bases) if base > 1]  # a digit of base 1 never changes
    digits, directions = [0] * len(places), [1] * len(places)
    focus = list(range(len(places) + 1))
    yield -1, 0
    while (position := focus[0]) < len(places):
        focus[0] = 0
        digits[position] += directions[position]
        if digits[position] in (0, bases[places[position]] - 1):
            directions[position] = -directions[position]
            focus[position] = focus[position + 1]
            focus[position + 1] = position + 1
        yield places[position], digits[position]
