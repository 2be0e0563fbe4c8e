"""The local Spark Connect server, and the unit of a site's."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any

import psutil
import pytest

from binders.spark.local.commands import (
    CONNECTOR,
    JVM_OPTIONS,
    SERVER_CLASS,
    SMALL_SERVER_CLASS,
    configuration,
    connect_server_command,
    connect_server_environment,
)
from binders.spark.query.spec import FILE_MANAGER, FILE_MANAGER_SETTING
from testbed import ROOT
from testbed.servers.base import RealServer, accepts, free_port
from testbed.servers.local_spark import connect_session
from testbed.servers.spark import SparkServer
from tests.support.requirements import needs
from tests.support.trials import trial

NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
_UNIT = ROOT / "scripts" / "systemd" / "speck-spark.service"
_PAGE = ROOT / "docs" / "raspberry-pi.md"
_EXTENSIONS = "spark.sql.extensions.test.loadFromCp"


# Settings of a local server alone: it is on loopback, and gets its heap and its Python in another way.
_LOCAL_SETTINGS = {
    "spark.driver.memory",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.connect.grpc.binding.address",
    "spark.pyspark.python",
    "spark.ui.showConsoleProgress",
}
# Options of Java of a local server alone: it is on loopback, and spark-submit gives the others itself.
_LOCAL_OPTIONS = {
    "-Djava.net.preferIPv4Stack=true",
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
}
# Those of the unit alone: it runs for long, on a board with little memory.
_UNIT_OPTIONS = {"-Xss512k", "-XX:+ExitOnOutOfMemoryError", "${ARCHIVE}"}


def unit_command() -> list[str]:
    """The words of the unit's command line, without the values of its variables."""
    (text,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)", _UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    return shlex.split(text.replace("\\\n", " "))


def unit_settings() -> dict[str, str]:
    """Spark's settings in the unit."""
    words = unit_command()
    given = (words[at + 1] for at, word in enumerate(words) if word == "--conf")
    return dict(each.split("=", 1) for each in given)


def test_the_unit_has_the_settings_of_the_local_server() -> None:
    unit, local = unit_settings(), configuration(15002)
    del unit["spark.driver.extraJavaOptions"]
    assert unit.pop(FILE_MANAGER_SETTING) == FILE_MANAGER
    assert unit == {name: value for name, value in local.items() if name not in _LOCAL_SETTINGS}
    assert unit[_EXTENSIONS] == "false"
    words = unit_command()
    assert words[words.index("--class") + 1] == SMALL_SERVER_CLASS


def test_the_unit_has_the_java_options_of_the_local_server() -> None:
    unit = unit_settings()["spark.driver.extraJavaOptions"].split()
    assert {*unit} == {*JVM_OPTIONS} - _LOCAL_OPTIONS | _UNIT_OPTIONS
    assert {*JVM_OPTIONS} >= _LOCAL_OPTIONS


def archive_options() -> tuple[str, str]:
    """Java's options that write an archive and use it, as the documentation has them."""
    written, used = re.findall(r"ARCHIVE=(\S+)=/var/lib/speck/spark\.jsa", _PAGE.read_text(encoding="utf-8"))
    return written, used


class UnitServer(RealServer):
    """The server of the unit, with the installed Spark, on a free port; ``archive`` is as in its file.

    ``conf`` are further settings of Spark.
    """

    start_timeout = 600.0  # s; it also records the classes

    def __init__(self, directory: Path, archive: str, conf: Mapping[str, str] = NO_SETTINGS) -> None:
        super().__init__(directory)
        self.archive, self.port = archive, free_port()
        self._conf = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", **conf}

    def commands(self) -> list[list[str]]:
        text = _UNIT.read_text(encoding="utf-8")
        given = dict(re.findall(r"^Environment=(\w+)=(.*)", text, re.MULTILINE)) | {"ARCHIVE": self.archive}
        words = [Template(word).substitute(given) for word in unit_command()]
        replaced = {
            "/opt/speck/bin/spark-submit": str(Path(sys.executable).with_name("spark-submit")),
            "/opt/speck/spark-mqtt.jar": str(CONNECTOR),
            "spark.connect.grpc.binding.port=15002": f"spark.connect.grpc.binding.port={self.port}",
        }
        assert replaced.keys() <= {*words}
        # Of two values of a setting, the last one counts.
        further = [word for name, value in self._conf.items() for word in ("--conf", f"{name}={value}")]
        return [[*(replaced.get(word, word) for word in words[:-1]), *further, words[-1]]]

    def variables(self) -> dict[str, str]:
        # Halves the processor time of a start; the options of the unit are on its command line.
        return connect_server_environment() | {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}

    def ready(self) -> bool:
        return accepts(self.port)

    def maps(self, file: Path) -> bool:
        """True if the process has this file in its memory."""
        return str(file) in Path(f"/proc/{self.pid}/maps").read_text(encoding="utf-8")


@trial("test_an_extension_that_is_named_is_loaded_by_the_unit, and tests/binders/test_class_archive.py")
@pytest.mark.engine
@needs(CONNECTOR)
def test_the_unit_writes_its_archive_and_starts_with_it(tmp_path: Path) -> None:
    written, used = archive_options()
    archive = tmp_path / "spark.jsa"
    with UnitServer(tmp_path / "first", f"{written}={archive}") as server:
        process = psutil.Process(server.pid)
        process.terminate()
        process.wait(600)
        assert archive.exists(), server.log
    with UnitServer(tmp_path / "second", f"{used}={archive}") as server:
        assert server.maps(archive), server.log


@needs()
@pytest.mark.parametrize(
    ("jars", "expected"),
    [([CONNECTOR], SMALL_SERVER_CLASS), ([Path("/other.jar")], SERVER_CLASS), ([], SERVER_CLASS)],
)
def test_the_classes_of_the_connector_are_used_where_it_is_there(jars: list[Path], expected: str) -> None:
    command = connect_server_command(15002, jars)
    assert command[command.index("--class") + 1] == expected
    assert (f"{FILE_MANAGER_SETTING}={FILE_MANAGER}" in command) == (CONNECTOR in jars)


def vectors(address: str) -> list[Any]:
    """Rows that a function of MLlib makes."""
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql.functions import array, lit

    with connect_session(address) as session:
        return session.range(1).select(array_to_vector(array(lit(1.0)))).collect()


@pytest.mark.engine
def test_a_server_loads_no_extension_of_mllib(spark_server: SparkServer) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
        vectors(spark_server.address)


@pytest.mark.engine
@needs(CONNECTOR)
def test_an_extension_that_is_named_is_loaded_by_the_unit(tmp_path: Path) -> None:
    """It starts with the option that makes it write its archive as it ends."""
    (named,) = re.findall(r"--conf (spark\.sql\.extensions)=([\w.]+)", _PAGE.read_text(encoding="utf-8"))
    written, _ = archive_options()
    with UnitServer(tmp_path, f"{written}={tmp_path / 'spark.jsa'}", dict([named])) as server:
        assert len(vectors(f"sc://127.0.0.1:{server.port}")) == 1
        server.kill()  # an archive takes half a minute
