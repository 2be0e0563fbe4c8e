"""Tables of the profiles of jobs and links."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from speck.cli.render.tables import table
from speck.cli.render.values import Data

_MBIT = 8 / 1e6  # Mbit in a byte

_PROFILE = (
    "JOB",
    "SITE",
    "IN/S",
    "OUT/S",
    "BYTES IN",
    "BYTES OUT",
    "COST US",
    "FIXED",
    "SELECTIVITY",
    "TRUE IN/S",
    "TRUE OUT/S",
    "STATE",
    "SOURCE",
    "AGE",
)
_SHOWN = (
    ("rate_in", 1.0),
    ("rate_out", 1.0),
    ("bytes_in", 1.0),
    ("bytes_out", 1.0),
    ("cost", 1e6),
    ("fixed", 1.0),
    ("selectivity", 1.0),
    ("true_rate_in", 1.0),
    ("true_rate_out", 1.0),
    ("state", 1.0),
)


def profile_table(jobs: Iterable[Data], now: float) -> Table:
    """A row for each job: its load, and how that is known; ``now`` is Unix time, s."""
    return table(
        _PROFILE,
        (
            (
                each["job_name"],
                each["site"],
                *(_number(each[name], factor) for name, factor in _SHOWN),
                _known_by(each),
                _age(each["rate_in"], now),
            )
            for each in jobs
        ),
    )


def _number(value: Data | None, factor: float) -> str | None:
    """Three digits, without an exponent."""
    if value is None:
        return None
    number = value["value"] * factor
    if number >= 100:
        return f"{number:.0f}"
    return f"{number:.3g}" if number == 0 or number >= 1e-4 else f"{number:.6f}"


def _known_by(job: Data) -> str | None:
    """The source of the rates, and that of the cost where it differs."""
    rate, cost = job["rate_in"], job["cost"]
    if rate is None:
        return None
    source = "stored" if rate["known"] == "measured" and not job["fresh"] else rate["known"]
    return source if cost is None or cost["known"] == rate["known"] else f"{source}, cost {cost['known']}"


def _age(value: Data | None, now: float) -> str | None:
    """The age of a measured value, in its largest unit."""
    if value is None or not value["until"]:
        return None
    seconds = max(0.0, now - value["until"])
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def links_table(links: Iterable[Data], now: float) -> Table:
    """A row for each link; ">" marks a bandwidth that was never used up."""
    return table(
        ("FROM", "TO", "ROUND TRIP MS", "MBIT/S", "LOAD MBIT/S", "SOURCE", "AGE"),
        (
            (
                each["source"],
                each["target"],
                _number(each["round_trip"], 1000),
                (">" if each["at_least"] else "") + (_number(each["bandwidth"], _MBIT) or ""),
                _number(each["load"], _MBIT),
                _sources(each["round_trip"], each["bandwidth"]),
                _age(each["round_trip"], now),
            )
            for each in links
        ),
    )


def site_profiles_table(sites: Iterable[Data], now: float) -> Table:
    """A row for each site."""
    return table(
        ("SITE", "SPEED", "CORES", "MEMORY MB", "SOURCE", "AGE"),
        (
            (
                each["name"],
                _number(each["speed"], 1.0),
                _number(each["cores"], 1.0),
                _number(each["memory"], 1e-6),
                _sources(each["speed"], each["cores"]),
                _age(each["speed"], now),
            )
            for each in sites
        ),
    )


def _sources(*values: Data | None) -> str:
    """The sources of several values, each once."""
    return ", ".join(dict.fromkeys(each["known"] for each in values if each is not None))
