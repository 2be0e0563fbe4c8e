"""A real Flink cluster of its own for tests, on free loopback ports: a JobManager and a TaskManager.

::

    def test_something(flink_server: FlinkServer) -> None: ...      # the fixture: one cluster a test session

    with FlinkServer(directory) as server:      # a cluster of one's own, to be killed and started again
        connect(server.address)                 # http://127.0.0.1:PORT/
        server.kill()                           # SIGKILL to both; checkpoints and savepoints stay
        server.start()                          # again, on the same ports

``small`` clusters have both in one process, as that of the fixture.  All have, unless a test needs two, with
``SPECK_SMALL_FLINK=1``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from binders.common.java import java
from binders.flink.local.cluster import CONNECTOR, LocalCluster, flink_home
from binders.flink.local.server import FLINK_CLUSTER, FLINK_SMALL
from binders.flink.local.small import SmallCluster
from testbed import ROOT
from testbed.servers.base import RealServer, free_port

SOURCES = ROOT / "testbed" / "programs" / "flink"
JOBS_JAR = "streets.jar"  # of the test programs

# A busy machine may take longer than Flink's 10 s.  A TaskManager that replaces a killed one listens on
# another port: at the same port the JobManager may reuse the broken connection ("read-only association").
_PATIENT = {"pekko.startup-timeout": "2 min", "taskmanager.rpc.port": "0"}

# A TaskManager that was killed is missed after two heartbeats, not after 20 s, and its jobs start again.
QUICK_HEARTBEATS = {"heartbeat.interval": "2 s"}

SMALL = bool(os.environ.get("SPECK_SMALL_FLINK"))

_TALKATIVE = SOURCES / "talkative.properties"

# Halves the processor time of a start, at the cost of long runs, which tests do not have.
_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1",)


class FlinkServer(RealServer):
    """One cluster: the process of the JobManager, and that of the TaskManager (``small``: one process)."""

    def __init__(
        self,
        directory: Path,
        *,
        heap: str = "320m",
        slots: int = 32,
        python: str = "",
        conf: Mapping[str, str] | None = None,
        talkative: bool = False,
        small: bool = SMALL,
    ) -> None:
        """Prepare a cluster that keeps its files in ``directory``; ``talkative``: it logs as Flink does."""
        super().__init__(directory)
        self.environment: dict[str, str] = {}
        self.form = FLINK_SMALL if small else FLINK_CLUSTER
        self.ports = tuple(free_port() for _ in range(self.form.ports))
        self.cluster = (SmallCluster if small else LocalCluster)(
            self.ports,
            directory,
            heap,
            slots=slots,
            python=python,
            extra={**_PATIENT, **(conf or {})},
            jvm_options=(*_JVM_OPTIONS, *([f"-Dlog4j.configurationFile={_TALKATIVE}"] if talkative else [])),
        )

    @property
    def address(self) -> str:
        """The cluster's address as in a composition."""
        return self.form.address(self.ports)

    def commands(self) -> list[list[str]]:
        return self.cluster.programs()

    def variables(self) -> dict[str, str]:
        return {**self.cluster.environment(), **self.environment}

    def ready(self) -> bool:
        """True if the cluster has slots."""
        return self.form.ready(self.ports)

    def stop(self) -> None:
        """End the cluster by SIGKILL: an orderly end takes seconds, and saves nothing."""
        self.kill()

    @property
    def task_manager_pid(self) -> int:
        """The id of the TaskManager's process."""
        return self._processes[-1].pid

    def kill_job_manager(self) -> None:
        """End the JobManager by SIGKILL, and start another; a TaskManager of its own keeps running."""
        self._replace(0)

    def kill_task_manager(self) -> None:
        """End the TaskManager by SIGKILL, and start another; a JobManager of its own keeps running."""
        self._replace(len(self._processes) - 1)

    def freeze(self) -> None:
        """Suspend all processes, as if they were cut off from the network; their connections stay."""
        for process in self._processes:
            process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the processes."""
        for process in self._processes:
            process.send_signal(signal.SIGCONT)

    @contextmanager
    def without_task_manager(self) -> Iterator[None]:
        """End the TaskManager by SIGKILL, and start another when the block ends."""
        self._processes[-1].kill()
        self._processes[-1].wait()
        try:
            yield
        finally:
            self._replace(len(self._processes) - 1)

    def _replace(self, which: int) -> None:
        self._processes[which].kill()
        self._processes[which].wait()
        self._run(self.commands()[which])
        self._processes[which] = self._processes.pop()
        self._await_ready()


def compile_jobs(directory: Path) -> Path:
    """Compile the test programs into a jar in ``directory``."""
    classes = directory / "classes"
    compiler = Path(java("Flink")).resolve().with_name("javac")
    distribution = next((flink_home() / "lib").glob("flink-dist-*.jar"))
    sources = [str(source) for source in sorted(SOURCES.glob("*.java"))]
    subprocess.run(
        [
            str(compiler),
            *(f"-J{option}" for option in _JVM_OPTIONS),
            "-nowarn",
            "-cp",
            f"{distribution}{os.pathsep}{CONNECTOR}",
            "-d",
            str(classes),
            *sources,
        ],
        check=True,
    )
    jar = directory / JOBS_JAR
    with zipfile.ZipFile(jar, "w") as archive:
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes))
    return jar
