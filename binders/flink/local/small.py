"""The command line of a Flink session cluster in one process, for machines with little memory.

JobManager and TaskManager are in one Java process (``io.speck.flink.small.SmallCluster``), which sets what is
left out here.  The cluster behaves as the one of two processes, except that both end together.
"""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

from binders.common import class_archive
from binders.flink.local.cluster import JARS, LocalCluster, flink_home
from speck.binder.devserver import heap_bytes
from speck.core.durable_files import put_in_place, scratch_beside
from speck.errors import LocalError

SMALL_CLUSTER = "io.speck.flink.small.SmallCluster"
JAR = JARS / "flink-small.jar"

# REST, JobManager, blobs.
PORTS = 3

ARCHIVE = "flink-small"  # of classes: see binders.common.class_archive
MIN_HEAP = "96m"
SLOTS = 16  # each has 2 MB of network buffers

# Flink's RPC system, a jar within flink-dist.
_RPC = "flink-rpc-akka"

JVM_OPTIONS = (
    "-Xms32m",  # Java begins with 1/64 of the machine's memory otherwise
    "-XX:+ExitOnOutOfMemoryError",  # a JobManager that has lost a thread reports no fault
)


@dataclass(frozen=True)
class SmallCluster(LocalCluster):
    """A :class:`LocalCluster` in one process; ``heap`` is that of the process."""

    def bare_programs(self) -> dict[str, list[str]]:
        """See :meth:`LocalCluster.bare_programs`.

        Raises :class:`~speck.errors.LocalError` too without the jar, or for too small a heap.
        """
        if not JAR.exists():
            raise LocalError(f"{JAR} is not built (expected: make jars)")
        if heap_bytes(self.heap) < heap_bytes(MIN_HEAP):
            raise LocalError(
                f"heap {self.heap!r} is too small for Flink in one process (expected {MIN_HEAP} or more)"
            )
        self.write_configuration()
        return {
            ARCHIVE: self.program(
                SMALL_CLUSTER,
                jvm=(*JVM_OPTIONS, f"-Xmx{self.heap}", f"-Dlog.file={self.directory / 'flink.log'}"),
                jars=(JAR, *(jar for jar in (rpc_jar(),) if jar.exists())),
            )
        }

    def task_manager_settings(self) -> dict[str, str | int]:
        """None: it has no ports, and sizes by the entry point."""
        return {}


def rpc_jar() -> Path:
    """The path of the jar of Flink's RPC system, once :func:`unpack_rpc` has written it.

    On the class path, its classes can be in a class archive; Flink unpacks it at each start otherwise.
    """
    distribution = _distribution()
    version = distribution.stem.removeprefix("flink-dist")
    return class_archive.archive_path(f"{_RPC}{version}").with_suffix(".jar")


def unpack_rpc() -> None:
    """Write :func:`rpc_jar`.  Raises :class:`~speck.errors.LocalError`."""
    to, name = rpc_jar(), f"{_RPC}.jar"
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with scratch_beside(to) as new:
            with zipfile.ZipFile(_distribution()) as jar, jar.open(name) as source, new.open("wb") as written:
                shutil.copyfileobj(source, written)
            put_in_place(new, to)  # a program that starts meanwhile finds a whole jar or none
    except (OSError, KeyError) as error:
        raise LocalError(f"{to} cannot be unpacked: {error}") from error


def _distribution() -> Path:
    return next((flink_home() / "lib").glob("flink-dist-*.jar"))
