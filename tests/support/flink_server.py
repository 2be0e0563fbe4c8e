"""A real Flink cluster of its own for tests, on free loopback ports: a JobManager and a TaskManager.

::

    def test_something(flink_server: FlinkServer) -> None: ...      # the fixture: one cluster a test session

    with FlinkServer(directory) as server:      # a cluster of one's own, to be killed and started again
        connect(server.address)                 # http://127.0.0.1:PORT/
        server.kill()                           # SIGKILL to both; checkpoints and savepoints stay
        server.start()                          # again, on the same ports
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import pytest

from binders.common.java import java
from binders.flink.local.cluster import PORTS, LocalCluster, flink_home
from binders.flink.local.server import FLINK_CLUSTER
from speck.errors import LocalError
from tests.support.mosquitto_server import free_port

SOURCES = Path(__file__).parent / "flink_jobs"

_START_TIMEOUT = 180.0

# A busy machine may take longer than Flink's 10 s.  A TaskManager in place of one that was killed takes
# another port: at the same one the JobManager may go on with the broken connection ("read-only association").
_PATIENT = {"pekko.startup-timeout": "2 min", "taskmanager.rpc.port": "0"}

_TALKATIVE = SOURCES / "talkative.properties"

# Half the processor time of a start; what runs long pays for it, and no test does.
_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1",)


class FlinkServer:
    """One cluster; its ports stay the same over :meth:`kill` and :meth:`start`."""

    def __init__(
        self,
        directory: Path,
        *,
        heap: str = "320m",
        slots: int = 32,
        python: str = "",
        conf: Mapping[str, str] | None = None,
        talkative: bool = False,
    ) -> None:
        """Prepare a cluster that keeps its files in ``directory``; ``talkative``: it logs as Flink does."""
        self.directory = directory
        self.ports = tuple(free_port() for _ in range(PORTS))
        self.cluster = LocalCluster(
            self.ports,
            directory,
            heap,
            slots=slots,
            python=python,
            extra={**_PATIENT, **(conf or {})},
            jvm_options=(*_JVM_OPTIONS, *([f"-Dlog4j.configurationFile={_TALKATIVE}"] if talkative else [])),
        )
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """The cluster's address as a composition has it."""
        return FLINK_CLUSTER.address(self.ports)

    @property
    def log(self) -> str:
        """What JobManager and TaskManager wrote to their log."""
        return (self.directory / "server.log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> FlinkServer:
        """Start it and wait until it has slots."""
        assert not self._processes, "the cluster runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        self._processes = [self._run(command) for command in self.cluster.programs()]
        try:
            self._await_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def kill_job_manager(self) -> None:
        """End the JobManager by SIGKILL, and start another; the TaskManager lives on."""
        self._replace(0)

    def kill_task_manager(self) -> None:
        """End the TaskManager by SIGKILL, and start another; the JobManager lives on."""
        self._replace(1)

    def freeze(self) -> None:
        """Hold all of it, as if it were cut off from everybody; its connections stay."""
        for process in self._processes:
            process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        for process in self._processes:
            process.send_signal(signal.SIGCONT)

    @contextmanager
    def without_task_manager(self) -> Iterator[None]:
        """End the TaskManager by SIGKILL, and start another when the block ends."""
        self._processes[1].kill()
        self._processes[1].wait()
        try:
            yield
        finally:
            self._replace(1)

    def _replace(self, which: int) -> None:
        self._processes[which].kill()
        self._processes[which].wait()
        self._processes[which] = self._run(self.cluster.programs()[which])
        self._await_ready()

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.directory / "server.log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.directory,
                env=self.cluster.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """End it by SIGKILL; of one that does not run: nothing."""
        processes, self._processes = self._processes, []
        for process in processes:
            process.kill()
            process.wait()

    def ready(self) -> bool:
        """Whether it has slots."""
        return FLINK_CLUSTER.ready(self.ports)

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while not self.ready():
            if any(process.poll() is not None for process in self._processes):
                raise RuntimeError(f"the cluster ended:\n{self.log[-3000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"no cluster at {self.address} in {_START_TIMEOUT} s:\n{self.log[-3000:]}")
            time.sleep(0.05)

    def __enter__(self) -> FlinkServer:
        return self if self._processes else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def compile_jobs(directory: Path) -> Path:
    """Compile the test programs into a jar in ``directory``."""
    classes = directory / "classes"
    compiler = Path(java("Flink")).resolve().with_name("javac")
    class_path = next((flink_home() / "lib").glob("flink-dist-*.jar"))
    sources = [str(source) for source in sorted(SOURCES.glob("*.java"))]
    subprocess.run(
        [str(compiler), "-nowarn", "-cp", str(class_path), "-d", str(classes), *sources], check=True
    )
    jar = directory / "streets.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes))
    return jar


@pytest.fixture(name="flink_jobs", scope="session")
def flink_jobs_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jar of the test programs."""
    if shutil.which("javac") is None:
        pytest.skip("javac is not installed")
    try:
        return compile_jobs(tmp_path_factory.mktemp("flink-jobs"))
    except LocalError as error:
        pytest.skip(str(error))


@pytest.fixture(name="flink_server", scope="session")
def flink_server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkServer]:
    """One cluster for the whole test session (use job names of your own)."""
    try:
        java("Flink")
        flink_home()
    except LocalError as error:
        pytest.skip(str(error))
    with FlinkServer(tmp_path_factory.mktemp("flink")) as server:
        yield server
