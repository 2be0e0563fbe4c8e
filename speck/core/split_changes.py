"""The changes that a plan makes to splits by keys: further combiners, and another class.  Pure decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from speck.core.job import CODE, Job
from speck.core.plan import Action, Move, Start, Update, former_of
from speck.core.split import Role, part_name, part_of


@dataclass(frozen=True, slots=True)
class GrowingSplit:
    """A split that gets further combiners; ``combiners`` are those of them that a plan starts."""

    name: str
    before: int
    after: int
    partitioner: str
    combiners: frozenset[str]


def growing_splits(actions: Mapping[str, Action]) -> Iterator[GrowingSplit]:
    """The splits of a plan that get further combiners."""
    for name, action in actions.items():
        former, part = former_of(action), part_of(action.job)
        old = part_of(former) if former is not None else None
        if part is None or old is None or part.role is not Role.PARTITIONER or part.workers <= old.workers:
            continue
        added = [part_name(part.of, Role.COMBINER, each) for each in range(old.workers, part.workers)]
        started = frozenset(each for each in added if isinstance(actions.get(each), Start))
        yield GrowingSplit(part.of, old.workers, part.workers, name, started)


_CLASS = frozenset({CODE, "entry_class", "arguments"})


@dataclass(frozen=True, slots=True)
class ClassChange:
    """A running combiner whose class changes; its partitioner ``follows`` if it changes in the same plan."""

    combiner: str
    partitioner: str
    follows: bool


def class_changes(actions: Mapping[str, Action], kept: Mapping[str, Job]) -> Iterator[ClassChange]:
    """The running combiners whose class changes, but for those whose own arguments alone do.

    ``kept`` are the jobs that stay as they are, by name.
    """
    for name, action in actions.items():
        part = part_of(action.job)
        if part is None or part.role is not Role.COMBINER or not (changed := _class_fields(action)):
            continue
        partitioner = part_name(part.of, Role.PARTITIONER)
        follows = partitioner in actions and bool(_class_fields(actions[partitioner]))
        before = partitioner in kept and _is_ahead(kept[partitioner], action)
        if follows or before or changed != {"arguments"}:
            yield ClassChange(name, partitioner, follows)


def _class_fields(action: Action) -> Set[str]:
    """The changed fields of a running part from which its class is built, if it keeps its state."""
    if not isinstance(action, Update | Move) or action.job.upgrade != "stateful":
        return frozenset()
    return _CLASS & {each.field for each in action.changes}


def _is_ahead(partitioner: Job, action: Action) -> bool:
    """True if a partitioner has arguments of a combiner's next form already, as when a crash came between.

    Arguments that are gone may have been those of the combiner alone, or of both.
    """
    former = former_of(action)
    before, after = former.arguments if former is not None else {}, action.job.arguments
    new = {key: value for key, value in partitioner.arguments.items() if after.get(key) == value}
    return any(before.get(key) != value for key, value in new.items()) or not before.keys() <= after.keys()
