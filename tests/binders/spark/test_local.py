"""The local Spark Connect server, and the unit of a site's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from binders.spark.local.commands import (
    CONNECTOR,
    SERVER_CLASS,
    SMALL_SERVER_CLASS,
    configuration,
    connect_server_command,
)
from testbed import ROOT
from testbed.servers.spark import SparkServer
from tests.support.requirements import needs

_UNIT = ROOT / "scripts" / "systemd" / "speck-spark.service"
_EXTENSIONS = "spark.sql.extensions.test.loadFromCp"


def test_the_unit_has_the_settings_of_the_local_server() -> None:
    unit = dict(re.findall(r"--conf ([\w.]+)=(\S+)", _UNIT.read_text(encoding="utf-8")))
    local = configuration(15002)
    assert unit == {name: local[name] for name in unit}
    assert unit[_EXTENSIONS] == "false"
    assert f"--class {SMALL_SERVER_CLASS} " in _UNIT.read_text(encoding="utf-8")


@needs()
@pytest.mark.parametrize(
    ("jars", "expected"),
    [([CONNECTOR], SMALL_SERVER_CLASS), ([Path("/other.jar")], SERVER_CLASS), ([], SERVER_CLASS)],
)
def test_the_entry_point_of_the_connector_is_used_where_it_is_there(jars: list[Path], expected: str) -> None:
    command = connect_server_command(15002, jars)
    assert command[command.index("--class") + 1] == expected


def vectors(address: str) -> list[Any]:
    """Rows that a function of MLlib makes."""
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import array, lit

    session = SparkSession.builder.remote(address).create()
    try:
        return session.range(1).select(array_to_vector(array(lit(1.0)))).collect()
    finally:
        session.stop()


@pytest.mark.engine
def test_a_server_loads_no_extension_of_mllib(spark_server: SparkServer) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
        vectors(spark_server.address)


@pytest.mark.engine
def test_an_extension_that_is_named_is_loaded(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "raspberry-pi.md").read_text(encoding="utf-8")
    (named,) = re.findall(r"--conf (spark\.sql\.extensions)=([\w.]+)", page)
    with SparkServer(tmp_path, conf=dict([named])) as server:
        assert len(vectors(server.address)) == 1
