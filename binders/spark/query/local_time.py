"""The local time zone of the process that calls a job's code."""

from __future__ import annotations

import os
import time
from importlib import resources
from pathlib import Path

from binders.spark.query.user_code import JobFault
from speck.core.timezone import UTC

# The database of the C library, in which it looks for the zone of the environment.
_SYSTEM = Path("/usr/share/zoneinfo")


def use_timezone(name: str) -> None:
    """Make this zone the local one of this process.

    PySpark converts a ``datetime`` without a zone that the code compares with a column by the local zone of
    the process, which would be the machine's own.

    Raises :class:`JobFault` if neither the system nor the package ``tzdata`` has the zone: the C library
    takes UTC silently for a zone that it does not find.
    """
    if name != UTC and not (_SYSTEM / name).is_file():
        os.environ["TZDIR"] = _package_database(name)
    os.environ["TZ"] = name
    time.tzset()


def _package_database(name: str) -> str:
    try:
        database = Path(str(resources.files("tzdata"))) / "zoneinfo"
    except ModuleNotFoundError:
        database = Path()
    if not (database / name).is_file():
        right = "expected the package tzdata of the system or of Python there"
        raise JobFault(f"time zone {name!r} is not known on the machine that calls the job's code ({right})")
    return str(database)
