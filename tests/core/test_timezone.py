from __future__ import annotations

import os
import subprocess
import sys
import zoneinfo
from collections.abc import Iterator

import pytest

from speck.core import timezone

NEEDS_ZONES = "import time; from binders.spark.query import local_time as l; from pathlib import Path; "
IN_BERLIN = "l.use_timezone('Europe/Berlin'); print(time.strftime('%H %Z', time.localtime(1774782000)))"


@pytest.fixture
def no_system_database() -> Iterator[None]:
    """As on a small machine, where the system has no database of zones."""
    zoneinfo.reset_tzpath(to=[])
    timezone._names.cache_clear()
    yield
    zoneinfo.reset_tzpath()
    timezone._names.cache_clear()


@pytest.mark.usefixtures("no_system_database")
def test_zones_are_known_without_a_database_of_the_system() -> None:
    assert timezone.timezone_fault("Europe/Berlin") is None
    assert timezone.timezone_fault("UTC") is None
    assert timezone.timezone_fault("Europe/Bern") is not None


def run(code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TZ": "America/New_York"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, check=False)


@pytest.mark.slow("a new interpreter")
@pytest.mark.parametrize("system", ["l._SYSTEM", "Path('/nowhere')"])
def test_a_process_gets_the_zone_also_without_a_database_of_the_system(system: str) -> None:
    assert run(f"{NEEDS_ZONES} l._SYSTEM = {system}; {IN_BERLIN}").stdout == "13 CEST\n"


@pytest.mark.slow("a new interpreter")
def test_a_zone_that_no_database_has_is_named() -> None:
    found = run(f"{NEEDS_ZONES} l.use_timezone('Mars/Olympus')")
    assert "time zone 'Mars/Olympus' is not known on the machine that calls the job's code" in found.stderr
