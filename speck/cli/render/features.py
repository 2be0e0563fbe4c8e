"""The features of the plans of jobs, a row for each job."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from rich.table import Table

from speck.cli.render.tables import table
from speck.cli.render.values import Data
from speck.placement.features import FEATURES

_NAMES = tuple(each.name for each in FEATURES)


def features_table(plans: Iterable[Data]) -> Table:
    """A row for each plan, numbers to four digits."""
    heads = ("JOB", *(name.replace("_", " ").upper() for name in _NAMES))
    return table(heads, ((each["job_name"], *map(_digits, _values(each))) for each in plans))


def features_csv(plans: Iterable[Data]) -> str:
    """The same as CSV (RFC 4180), exactly; a value that is unknown is empty."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("job_name", "engine", *_NAMES))
    writer.writerows((each["job_name"], each["engine"], *_values(each)) for each in plans)
    return text.getvalue()


def features_data(plans: Iterable[Data], faults: Iterable[Data]) -> dict[str, Any]:
    """The same as plain data, with the units and meanings of the features, and the jobs without a plan."""
    return {
        "features": [{"name": each.name, "unit": each.unit, "meaning": each.meaning} for each in FEATURES],
        "jobs": [
            {"job_name": each["job_name"], "engine": each["engine"], "features": each["features"]}
            for each in plans
        ],
        "faults": list(faults),
    }


def _values(plan: Data) -> list[float | None]:
    return [plan["features"].get(name) for name in _NAMES]


def _digits(value: float | None) -> str | None:
    return None if value is None else f"{value:.4g}"
