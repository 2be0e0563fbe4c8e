"""Key splitting: one keyed windowed aggregation as a group of jobs, or as two phases in one job.

A split over sites is expanded into ordinary jobs: a *partitioner*, which gives the rows of its source to
workers; a *combiner* for each worker, which aggregates its rows; and a *reducer*, which merges the partial
aggregates of keys that were given to several workers.  In one Spark job (role *whole*) both phases are in one
query.  :attr:`speck.core.job.Job.split` describes a job's part; :class:`Part` is its typed form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any

from speck.core.job import Job, Scalar
from speck.core.split.partitioners import PARTITIONERS

SPLIT_TOPICS = "speck/split/"
CONTROL_TOPICS = "speck/control/"
PARTIALS = "partials"
MOST_SLIDES = 10_000  # of a window
MOST_NAME = 80  # characters of the name of a split; its jobs add up to 13
METRICS_WINDOW_US, METRICS_SLIDE_US = 60_000_000, 10_000_000
SITES_TRIGGER = "1 seconds"  # micro-batches of the jobs of a split over sites, by default: fuller frames
DEFAULT_AT_SITES = "balanced"
DEFAULT_IN_ONE_JOB = "shuffle"


class Role(StrEnum):
    """The part of a job in a split."""

    PARTITIONER = "partitioner"
    COMBINER = "combiner"
    REDUCER = "reducer"
    WHOLE = "whole"


# --- a split as its user describes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An engine for a part of a split; ``spe_address`` ``""``: the job's own.

    ``weight`` is a combiner's share of the rows, in any unit; ``parallelism`` the number of its shards
    (``None``: 1); ``arguments`` are added to the job's.
    """

    spe_address: str = ""
    site: str | None = None
    weight: float = 1.0
    parallelism: int | None = None
    arguments: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The block ``key_split`` of a job, resolved.

    ``combiners`` is a number for one Spark job, the places for a split over sites.  Times are in
    microseconds; the window is a multiple of the slide.  ``measured``: the combiners' measured speeds take
    the place of their weights.  ``metrics_window_us`` and ``metrics_slide_us`` are the time over which their
    work is measured, and that between two measurements.  ``seed`` ``None``: by the job's name.  ``policy`` is
    the name of one that ships, or a path, with ``policy_data``, the content of that file as Base64.
    """

    combiners: int | tuple[Place, ...]
    partitioner: str
    window_us: int
    slide_us: int
    lateness_us: int = 0
    options: Mapping[str, float] = field(default_factory=dict)
    reducer: Place = field(default_factory=Place)
    measured: bool = False
    metrics_window_us: int = METRICS_WINDOW_US
    metrics_slide_us: int = METRICS_SLIDE_US
    seed: int | None = None
    policy: str = ""
    policy_data: str = ""

    @property
    def workers(self) -> int:
        """The number of combiners."""
        return self.combiners if isinstance(self.combiners, int) else len(self.combiners)


def expand(job: Job, split: Split) -> tuple[Job, ...]:
    """The jobs of a split: partitioner, combiners and reducer over sites, or the one job.

    Each job's ``split`` has what its own work depends on and nothing else, so that, for example, one more
    combiner changes the partitioner alone.
    """
    if isinstance(split.combiners, int):
        return (replace(job, split=_described(Role.WHOLE, job, split) | _routing(job, split)),)
    base = replace(job, trigger=job.trigger or SITES_TRIGGER, parallelism=None)
    combiners = (_combiner(base, split, number, at) for number, at in enumerate(split.combiners))
    return (_partitioner(base, split), *combiners, _reducer(base, split))


def part_name(name: str, role: Role, number: int = 0) -> str:
    """The name of a job of a split over sites; ``number`` is that of a combiner."""
    return f"{name}.{role}-{number}" if role is Role.COMBINER else f"{name}.{role}"


def part_names(name: str, workers: int) -> tuple[str, ...]:
    """The names of the jobs of a split over sites."""
    combiners = (part_name(name, Role.COMBINER, number) for number in range(workers))
    return (part_name(name, Role.PARTITIONER), *combiners, part_name(name, Role.REDUCER))


def _partitioner(job: Job, split: Split) -> Job:
    assert not isinstance(split.combiners, int)  # noqa: S101 - for the type checker
    weights = {f"weight.{n}": at.weight for n, at in enumerate(split.combiners) if at.weight != 1}
    return replace(
        job,
        job_name=part_name(job.job_name, Role.PARTITIONER),
        sink_broker=job.source_broker,
        sink_topic=split_topic(job.job_name, "rows"),
        split=_described(Role.PARTITIONER, job, split)
        | _routing(job, split)
        | weights
        | _shards(split.combiners),
    )


def _combiner(job: Job, split: Split, number: int, at: Place) -> Job:
    return replace(
        _placed(job, at),
        job_name=part_name(job.job_name, Role.COMBINER, number),
        source_topic=split_topic(job.job_name, f"rows/{number}"),
        split=_described(Role.COMBINER, job, split) | {"number": number} | _shards((split.reducer,)),
    )


def _reducer(job: Job, split: Split) -> Job:
    return replace(
        _placed(job, split.reducer),
        job_name=part_name(job.job_name, Role.REDUCER),
        source_broker=job.sink_broker,
        source_topic=split_topic(job.job_name, PARTIALS),
        split=_described(Role.REDUCER, job, split),
    )


def _placed(job: Job, at: Place) -> Job:
    moved = replace(job, spe_address=at.spe_address, site=at.site) if at.spe_address else job
    arguments = {**job.arguments, **at.arguments}
    return replace(moved, parallelism=at.parallelism, arguments=arguments)


def _shards(places: Iterable[Place]) -> dict[str, Scalar]:
    """The numbers of shards above 1 of the parts that one writes to."""
    numbers = {f"shards.{number}": at.parallelism or 1 for number, at in enumerate(places)}
    return {name: shards for name, shards in numbers.items() if shards > 1}


def _described(role: Role, job: Job, split: Split) -> dict[str, Scalar]:
    return {
        "of": job.job_name,
        "role": role.value,
        "window_us": split.window_us,
        "slide_us": split.slide_us,
    }


def _routing(job: Job, split: Split) -> dict[str, Scalar]:
    """The settings of the routing; rare ones are left out where they have their default."""
    rare: Mapping[str, tuple[Scalar, Scalar]] = {
        "measured": (split.measured, False),
        "metrics_window_us": (split.metrics_window_us, METRICS_WINDOW_US),
        "metrics_slide_us": (split.metrics_slide_us, METRICS_SLIDE_US),
        "policy": (split.policy, ""),
        "policy_data": (split.policy_data, ""),
    }
    return {
        "workers": split.workers,
        "lateness_us": split.lateness_us,
        "partitioner": split.partitioner,
        "seed": split.seed if split.seed is not None else seed_of(job.job_name),
        **{f"option.{name}": value for name, value in sorted(split.options.items())},
        **{name: value for name, (value, default) in rare.items() if value != default},
    }


def seed_of(name: str) -> int:
    """The seed of a split that gives none, from 0 to 2**32 - 1: two splits share no homes by chance."""
    return int.from_bytes(sha256(name.encode()).digest()[:4])


# --- the part of a job


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of a job in a split: :attr:`Job.split <speck.core.job.Job.split>`, typed.

    ``number`` is that of a combiner.  ``workers``, ``lateness_us``, ``partitioner``, ``seed``, ``options``,
    ``weights`` (one a worker), ``measured``, the times of the metrics and the policy are those of a
    partitioner or a whole split; they are 0, empty or the defaults in other parts.  ``shards`` are the shards
    of each part that this one writes to: of the combiners by number, or of the reducer alone.
    """

    of: str
    role: Role
    window_us: int
    slide_us: int
    number: int = 0
    workers: int = 0
    lateness_us: int = 0
    partitioner: str = ""
    seed: int = 0
    options: Mapping[str, float] = field(default_factory=dict)
    weights: tuple[float, ...] = ()
    shards: tuple[int, ...] = ()
    measured: bool = False
    metrics_window_us: int = METRICS_WINDOW_US
    metrics_slide_us: int = METRICS_SLIDE_US
    policy: str = ""
    policy_data: str = ""

    @property
    def metered(self) -> bool:
        """True for a partitioner that is sent the measured work of the combiners."""
        kind = PARTITIONERS.get(self.partitioner)
        needed = self.measured or bool(self.policy) or (kind is not None and kind.metered)
        return self.role is Role.PARTITIONER and needed

    @classmethod
    def of_split(cls, split: Mapping[str, Scalar]) -> Part:
        """The typed form of the field ``split`` of a job, which must not be empty."""
        workers = int(split.get("workers", 0))
        targets = 1 if split["role"] == Role.COMBINER else workers
        plain = {name: value for name, value in split.items() if "." not in name}
        values: dict[str, object] = plain | {
            "role": Role(str(split["role"])),
            "options": {
                name.removeprefix("option."): value
                for name, value in split.items()
                if name.startswith("option.")
            },
            "weights": tuple(float(split.get(f"weight.{each}", 1.0)) for each in range(workers)),
            "shards": tuple(int(split.get(f"shards.{each}", 1)) for each in range(targets)),
        }
        return cls(**values)  # type: ignore[arg-type]  # the keys are those of expand

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the split that this part writes for other parts, without the reports."""
        if self.role is Role.PARTITIONER:
            return tuple(split_topic(self.of, f"rows/{each}") for each in range(self.workers))
        return (split_topic(self.of, PARTIALS),) if self.role is Role.COMBINER else ()

    @property
    def report_topic(self) -> str:
        """The topic of the part's reports, at the broker that it writes to."""
        name = str(self.number) if self.role is Role.COMBINER else self.role.value
        return split_topic(self.of, f"report/{name}")


def part_of(job: Job) -> Part | None:
    """The part of a job in a split; ``None`` for a job of no split."""
    return Part.of_split(job.split) if job.split else None


def split_topic(name: str, suffix: str) -> str:
    """The topic of a split with this suffix, such as ``rows/0``."""
    return f"{SPLIT_TOPICS}{name}/{suffix}"


def control_topic(session: str) -> str:
    """The topic of the control messages to the job that reads through a session."""
    return f"{CONTROL_TOPICS}{session}"


def written_topics(job: Job) -> tuple[str, ...]:
    """The topics that a job writes for readers, all at its sink broker; reports of a split are left out."""
    part = part_of(job)
    if part is None or part.role in (Role.REDUCER, Role.WHOLE):
        return (job.sink_topic,)
    return part.topics if part.role is Role.PARTITIONER else (job.sink_topic, *part.topics)


def shown_job(job: Job) -> dict[str, Any]:
    """The fields of a job for display; a part of a split has the topics that it ``writes`` beside them."""
    topics = written_topics(job)
    return job.to_dict() | ({} if topics == (job.sink_topic,) else {"writes": list(topics)})


def groups(jobs: Iterable[Job]) -> Iterator[tuple[str, tuple[Job, ...]]]:
    """The splits over sites among these jobs: name and jobs (partitioner, combiners by number, reducer)."""
    found: dict[str, list[tuple[Part, Job]]] = {}
    for job in jobs:
        if (part := part_of(job)) is not None and part.role is not Role.WHOLE:
            found.setdefault(part.of, []).append((part, job))
    ranks = list(Role)
    for name, members in sorted(found.items()):
        members.sort(key=lambda each: (ranks.index(each[0].role), each[0].number))
        yield name, tuple(job for _, job in members)
