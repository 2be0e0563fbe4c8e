"""Splits by keys as plain data: what the jobs of each are and how they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from speck.core.split import Part, Role
from speck.core.suggestions import did_you_mean
from speck.errors import NotFound
from speck.observe.split_watch import SplitWatch

Data = Mapping[str, Any]

_NO_WORK = {"rows_per_second": None, "busy_share": None}
_RATES = ("input_rate", "output_rate", "waiting", "work_seconds")


def splits_data(jobs: Iterable[Data], rates: Iterable[Data], watch: SplitWatch) -> list[dict[str, Any]]:
    """The splits among these jobs, by name; ``jobs`` and ``rates`` are the answers of the queries."""
    meters = watch.meters()
    by_job = {each["job_name"]: each for each in rates}
    found: dict[tuple[str, str], list[tuple[Part, Data]]] = {}
    for job in jobs:
        if job["job"].get("split"):
            part = Part.of_split(job["job"]["split"])
            found.setdefault((part.of, job["composition"]), []).append((part, job))
    return [
        _split_data(name, composition, members, by_job, watch.parts(name)) | {"metrics": meters.get(name)}
        for (name, composition), members in sorted(found.items())
    ]


def split_data(splits: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """The split of this name.  Raises :class:`~speck.errors.NotFound`."""
    found = next((each for each in splits if each["name"] == name), None)
    if found is None:
        known = [each["name"] for each in splits]
        right = did_you_mean(name, known, f"known: {', '.join(known) or 'none'}")
        raise NotFound(f"there is no split {name!r} ({right})")
    return found


def _split_data(
    name: str,
    composition: str,
    members: Iterable[tuple[Part, Data]],
    rates: Mapping[str, Data],
    work: Mapping[str, Data],
) -> dict[str, Any]:
    ranks = list(Role)
    ordered = sorted(members, key=lambda each: (ranks.index(each[0].role), each[0].number))
    # The first one routes; the others may be left of a split whose partitioner is gone.
    routing = ordered[0][0]
    shares = dict(enumerate(routing.weights))
    return {
        "name": name,
        "composition": composition,
        "in_one_job": routing.role is Role.WHOLE,
        "partitioner": routing.partitioner,
        "options": dict(routing.options),
        "workers": routing.workers,
        "weights": "measured" if routing.measured else "fixed",
        "window_seconds": routing.window_us / 1e6,
        "slide_seconds": routing.slide_us / 1e6,
        "lateness_seconds": routing.lateness_us / 1e6,
        "metrics_window_seconds": routing.metrics_window_us / 1e6,
        "metrics_slide_seconds": routing.metrics_slide_us / 1e6,
        "parts": [
            _part_data(part, job, shares, rates.get(job["job_name"], {}))
            | dict(work.get(part.report_topic.rpartition("/")[2], _NO_WORK))
            for part, job in ordered
        ],
    }


def _part_data(part: Part, job: Data, shares: Mapping[int, float], rates: Data) -> dict[str, Any]:
    combiner = part.role is Role.COMBINER
    return {
        "job_name": job["job_name"],
        "role": part.role.value,
        "number": part.number if combiner else None,
        "weight": shares.get(part.number) if combiner else None,
        "site": rates.get("site") or job["job"].get("site"),
        "spe_address": job["job"]["spe_address"],
        "state": job["state"],
        "drift": job["drift"],
        "up_to_date": job["up_to_date"],
        **{name: rates.get(name) for name in _RATES},
    }
