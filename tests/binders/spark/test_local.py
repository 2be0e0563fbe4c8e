"""The options of Spark's Java processes on small machines."""

from __future__ import annotations

import re
from pathlib import Path

from binders.spark.local.connect_server import CONNECT_SERVER, SMALL
from testbed import ROOT
from tests.support.requirements import needs

_UNIT = ROOT / "scripts" / "systemd" / "speck-spark.service"


@needs()
def test_a_local_server_has_the_heap_that_was_measured(tmp_path: Path) -> None:
    command, _ = CONNECT_SERVER.command((81,), tmp_path, "512m")
    assert {*SMALL, "-Xmx512m"} <= {*command}


def test_the_unit_has_the_heap_that_was_measured() -> None:
    (options,) = re.findall(r'extraJavaOptions=([^"]*)"', _UNIT.read_text(encoding="utf-8"))
    assert {*SMALL} <= {*options.split()}
