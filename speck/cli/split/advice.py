"""The sample of messages for ``speck split advise``, and the job that it is for."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from speck.binder import EngineKind, installed
from speck.core.job import Job
from speck.core.split import Part, part_of
from speck.core.split.advice import Form, SplitAdvice, SplitSample, advise_split
from speck.core.suggestions import did_you_mean
from speck.errors import Fault, InvalidInput, NotFound
from speck.store.jobfile import locate

MOST_LINES = 100_000  # of a sample, which is held in memory
TOP = 5  # keys that are shown
_GZIP = b"\x1f\x8b"


def sample_lines(path: Path) -> list[str]:
    """The first messages of a file, plain or gzip, one a line.  Raises :class:`InvalidInput`."""
    with path.open("rb") as plain:
        compressed = plain.read(2) == _GZIP
    try:
        with gzip.open(path, "rb") if compressed else path.open("rb") as file:
            texts = (line.decode().rstrip("\r\n") for line in file)
            found = list(islice(filter(None, texts), MOST_LINES))
    except UnicodeDecodeError as error:
        invalid = f"byte {error.object[error.start]:#04x} in {error.object[:60]!r}"
        raise _bad_sample(path, f"is not UTF-8 text: {invalid} (expected messages as text)") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _bad_sample(path, f"cannot be read: {error}") from error
    if not found:
        raise _bad_sample(path, "is empty (expected messages of the job, one a line)")
    return found


def _bad_sample(path: Path, predicate: str) -> InvalidInput:
    return InvalidInput([Fault(f"sample {str(path)!r} {predicate}", field="sample")], "sample")


def job_to_split(jobs: Mapping[str, Job], name: str, file: Path) -> tuple[Job, Part | None]:
    """The job of this name, or the one that stands for its split, and its part.  Raises :class:`NotFound`."""
    found = ((job, part_of(job)) for job in jobs.values())
    # The part that routes has all settings of its split.
    parts = {part.of: (job, part) for job, part in found if part is not None and part.workers}
    own = part_of(jobs[name]) if name in jobs else None
    if (split := own.of if own is not None else name) in parts:
        return parts[split]
    if name in jobs:
        return jobs[name], own
    known = [*dict.fromkeys([*parts, *(each for each, job in jobs.items() if not job.split)])]
    right = did_you_mean(name, known, f"it has {', '.join(known) or 'none'}")
    raise NotFound(f"{file} has no job {name!r} ({right})")


def advice_for(
    name: str, job: Job, part: Part | None, root: Sequence[Path], lines: Sequence[str], rate: float | None
) -> dict[str, Any]:
    """The advice for a job as plain data; runs its class on the messages.

    Raises :class:`InvalidInput` for a class that is no aggregation, and :class:`Rejected` for one that fails.
    """
    path = locate(job.job_path, tuple(root))
    sample_split = _kind(job, path).sample_split
    assert sample_split is not None  # noqa: S101 - of _kind
    slide = part.slide_us if part is not None else None
    sample = sample_split(path, job.entry_class, job.arguments, lines, slide)
    workers = part.workers if part is not None else None
    slides = part.window_us // part.slide_us if part is not None else 1
    return advice_data(name, sample, advise_split(sample, rate, workers, slides), rate)


def _kind(job: Job, path: Path) -> EngineKind:
    """The kind of engine that tries the job's class, which is an aggregation."""
    kinds = (each for each in installed().engines if each.engine == job.engine)
    kind = next((each for each in kinds if each.sample_split is not None), None)
    if kind is None:
        message = f"job {job.job_name!r} runs on {job.engine!r} (expected spark: key_split runs on Spark)"
        raise InvalidInput([Fault(message, job=job.job_name, field="engine", value=job.engine)], "job")
    if kind.aggregation is not None and (faults := kind.aggregation(path, job.entry_class)):
        raise InvalidInput([Fault(each, job=job.job_name, field="entry_class") for each in faults], "job")
    return kind


def advice_data(name: str, sample: SplitSample, advice: SplitAdvice, rate: float | None) -> dict[str, Any]:
    """The advice and the sample as plain data."""
    busiest = sorted(sample.keys.items(), key=lambda each: (-each[1], each[0]))[:TOP]
    times = ("add_us", "merge_us", "message_us")
    fields = ("messages", "rows", "groups", "dropped", *times, "state_bytes", "key_rows")
    measured = ((field, getattr(sample, field)) for field in fields)
    return {
        "job": name,
        "split": advice.form is not Form.UNSPLIT,
        **asdict(advice),
        "rate": rate,
        "sample": {
            **{field: round(value, 3) for field, value in measured},
            "keys": len(sample.keys),
            "busiest": [{"key": key, "share": round(rows / sample.rows, 4)} for key, rows in busiest],
        },
    }
