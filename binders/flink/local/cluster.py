"""The command lines of a Flink session cluster out of the installed package, for a small machine.

One JobManager and one TaskManager, ``java`` started directly: the package ``apache-flink-libraries`` carries
Flink's jars and no shell scripts.  What is set beyond Flink's defaults, and why, stands beside each setting.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from binders.common import class_archive
from binders.common.connectors import KAFKA_CONNECTOR
from binders.common.java import java
from speck.binder.devserver import heap_bytes
from speck.errors import LocalError

JOBMANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASKMANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"

# REST, JobManager, blobs, TaskManager, data between tasks.
PORTS = 5

# Where the build puts SpecK's jars and where the wheel carries them.
JARS = Path(__file__).resolve().parents[2] / "jars"

_MEBIBYTE = 1 << 20
_JOBMANAGER_HEAP = 320 * _MEBIBYTE  # a JobManager holds a class loader for each job
_METASPACE = 256 * _MEBIBYTE  # every run of a job has a class loader of its own
_FRAMEWORK_HEAP = 64 * _MEBIBYTE
_OFF_HEAP = 64 * _MEBIBYTE  # connectors' clients (Netty)
# 2,048 buffers.  32 jobs, each with one exchange by key, took 102; one such job of 31 tasks over 1,024.
_NETWORK = 64 * _MEBIBYTE

# Packages of the JDK that Flink opens by reflection (env.java.opts.all of its own configuration).
_OPENED = tuple(
    f"java.base/{name}"
    for name in (
        *("java.lang", "java.lang.reflect", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.text"),
        *("java.time", "java.util", "java.util.concurrent"),
        *("java.util.concurrent.atomic", "java.util.concurrent.locks"),
    )
)

_JVM_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",  # options of newer or older Java than this one
    "-XX:+UseSerialGC",  # the least memory and threads, right for a heap below some 2 GB
    "-Xss512k",
    "-XX:ReservedCodeCacheSize=64m",
    "-XX:-UsePerfData",  # no file in the system's temporary directory that a SIGKILL would leave behind
    "-Djava.net.preferIPv4Stack=true",
    # On a slow or busy core the start of Pekko's network takes longer than its 10 s, and Flink ends then.
    # Flink's own setting, pekko.startup-timeout, becomes one that Pekko does not read (Flink 2.3).
    "-Dpekko.remote.classic.startup-timeout=120s",
)

# Flink loads a jar's classes again for each job: with the connector in the cluster itself all jobs share its
# classes, compiled code, and threads.
CONNECTOR = JARS / "flink-mqtt.jar"
_CONNECTOR_PACKAGES = (
    *("io.speck.connector.", "io.speck.mqtt.", "io.speck.kafka.", "io.speck.flink.mqtt."),
    "io.speck.shaded.",
)

_LOG_CONFIGURATION = Path(__file__).resolve().parent / "log4j2.properties"


@dataclass(frozen=True)
class LocalCluster:
    """A cluster on these loopback ports with its files in ``directory``.

    ``heap`` is a Java size, the TaskManager's; ``slots`` its task slots; ``python`` the path of a Python with
    ``apache-flink``, for Python programs (empty: none); ``host`` the address in place of loopback;
    ``states`` the directory of checkpoints and savepoints, if it is another one; ``extra`` further settings
    of Flink, which take precedence; an empty one leaves a setting out.
    """

    ports: tuple[int, ...]
    directory: Path
    heap: str = "600m"
    slots: int = 32
    python: str = ""
    host: str = "127.0.0.1"
    states: Path | None = None
    extra: Mapping[str, str] | None = None
    jvm_options: Iterable[str] = ()

    @property
    def checkpoints(self) -> Path:
        """The directory of checkpoints."""
        return (self.states or self.directory) / "checkpoints"

    @property
    def savepoints(self) -> Path:
        """The directory of savepoints."""
        return (self.states or self.directory) / "savepoints"

    def programs(self) -> list[list[str]]:
        """The command lines of the JobManager and of the TaskManager, as :meth:`bare_programs`."""
        bare = self.bare_programs()
        return [[java, *class_archive.options(name), *rest] for name, (java, *rest) in bare.items()]

    def bare_programs(self) -> dict[str, list[str]]:
        """The same without a class archive, by the names of their archives; writes their configuration.

        To be started with :func:`environment`.  Raises :class:`~speck.errors.LocalError` without Java or
        Flink.
        """
        self.write_configuration()
        return {
            "flink-jobmanager": self.program(
                JOBMANAGER,
                *("--executionMode", "cluster"),
                jvm=(f"-Xmx{_JOBMANAGER_HEAP}", f"-Dlog.file={self.directory / 'jobmanager.log'}"),
            ),
            "flink-taskmanager": self.program(
                TASKMANAGER,
                jvm=(
                    f"-Xmx{heap_bytes(self.heap)}",
                    f"-XX:MaxDirectMemorySize={_NETWORK + 2 * _OFF_HEAP}",
                    f"-Dlog.file={self.directory / 'taskmanager.log'}",
                ),
            ),
        }

    def environment(self) -> dict[str, str]:
        """The environment of both: this process's, Flink's own variables replaced."""
        home = flink_home()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("FLINK_")}
        return inherited | {
            "MALLOC_ARENA_MAX": "2",  # glibc keeps up to 8 heaps a core otherwise
            "FLINK_CONF_DIR": str(self._conf),
            "FLINK_LIB_DIR": str(home / "lib"),
            "FLINK_OPT_DIR": str(home / "opt"),
            "FLINK_PLUGINS_DIR": str(home / "plugins"),
        }

    def settings(self) -> dict[str, str | int]:
        """Flink's settings, for both programs."""
        rest, jobmanager, blobs, *_ = self.ports
        settings: dict[str, str | int] = {
            "rest.address": self.host,
            "rest.bind-address": self.host,
            "rest.port": rest,
            "jobmanager.rpc.address": self.host,
            "jobmanager.bind-host": self.host,
            "jobmanager.rpc.port": jobmanager,
            "blob.server.port": blobs,
            "taskmanager.numberOfTaskSlots": self.slots,
            "taskmanager.cpu.cores": f"{self.slots}.0",  # what slots are cut from, not what is used
            "io.tmp.dirs": str(self.directory / "tmp"),
            "web.upload.dir": str(self.directory / "uploads"),
            "execution.checkpointing.dir": self.checkpoints.as_uri(),
            "execution.checkpointing.savepoint-dir": self.savepoints.as_uri(),
            "web.refresh-interval": 200,  # ms; the answers of /jobs/:id are up to 3 s old otherwise
            "metrics.fetcher.update-interval": 1000,  # ms; 10 s otherwise
            "rest.server.max-content-length": 256 * _MEBIBYTE,  # of a jar
            "cluster.evenly-spread-out-slots": "false",
            "classloader.parent-first-patterns.additional": ";".join(_CONNECTOR_PACKAGES),
            **self.task_manager_settings(),
            **self._python(),
            **(self.extra or {}),
        }
        return {name: value for name, value in settings.items() if value != ""}

    def task_manager_settings(self) -> dict[str, str | int]:
        """Settings of a TaskManager that is a process of its own."""
        taskmanager, data = self.ports[3:]
        # By components: with a total, the defaults of the parts leave almost no heap at such sizes.
        sizes = {
            "jobmanager.memory.heap.size": _JOBMANAGER_HEAP,
            "taskmanager.memory.framework.heap.size": _FRAMEWORK_HEAP,
            "taskmanager.memory.task.heap.size": max(
                heap_bytes(self.heap) - _FRAMEWORK_HEAP, _FRAMEWORK_HEAP
            ),
            "taskmanager.memory.framework.off-heap.size": _OFF_HEAP,
            "taskmanager.memory.task.off-heap.size": _OFF_HEAP,
            "taskmanager.memory.managed.size": 0,  # state is on the heap
            "taskmanager.memory.network.min": _NETWORK,
            "taskmanager.memory.network.max": _NETWORK,
            "taskmanager.memory.jvm-metaspace.size": _METASPACE,
            "taskmanager.memory.jvm-overhead.min": 64 * _MEBIBYTE,
            "taskmanager.memory.jvm-overhead.max": 64 * _MEBIBYTE,
        }
        return {
            "taskmanager.host": self.host,
            "taskmanager.bind-host": self.host,
            "taskmanager.rpc.port": taskmanager,
            "taskmanager.data.port": data,
            **{name: f"{size}b" for name, size in sizes.items()},
        }

    def _python(self) -> dict[str, str]:
        if not self.python:
            return {}
        return {
            "python.client.executable": self.python,
            "python.executable": self.python,
            # Managed memory, out of which Python would receive its share, is 0 here.
            "python.fn-execution.memory.managed": "false",
        }

    def program(
        self, main: str, *arguments: str, jvm: Iterable[str] = (), jars: Iterable[Path] = ()
    ) -> list[str]:
        """The command line that runs a class of Flink, with ``jars`` before Flink's own.

        Raises :class:`~speck.errors.LocalError` without Java or Flink.
        """
        class_path = (*jars, *_class_path(flink_home(), bool(self.python)))
        return [
            java("Flink"),
            *_JVM_OPTIONS,
            f"-XX:MaxMetaspaceSize={_METASPACE}",
            f"-Djava.io.tmpdir={self.directory / 'tmp'}",
            *jvm,
            "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
            *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
            f"-Dlog4j.configurationFile={_LOG_CONFIGURATION.as_uri()}",
            *self.jvm_options,
            "-cp",
            os.pathsep.join(map(str, class_path)),
            main,
            "--configDir",
            str(self._conf),
            *arguments,
        ]

    @property
    def _conf(self) -> Path:
        return self.directory / "conf"

    def write_configuration(self) -> None:
        """Create the directories, and write the configuration."""
        import yaml  # here, as agents import this module and write none

        for folder in (self._conf, self.directory / "tmp", self.checkpoints, self.savepoints):
            folder.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump({name: str(value) for name, value in self.settings().items()})
        (self._conf / "config.yaml").write_text(text, encoding="utf-8")


def flink_home() -> Path:
    """The folder of the installed Flink.  Raises :class:`~speck.errors.LocalError`."""
    found = importlib.util.find_spec("pyflink")  # a folder of jars, not to be imported
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        if any(Path(place, "lib").glob("flink-dist-*.jar")):
            return Path(place)
    raise LocalError("Flink is not installed (pip install 'speck[flink]', or apache-flink-libraries 2)")


def _class_path(home: Path, python: bool) -> list[Path]:
    # With Tables and SQL, which some jobs use; classes that are not used are not loaded.
    jars = sorted((home / "lib").glob("*.jar"))
    if CONNECTOR.exists():  # that of Kafka's brokers is a part of it, and cannot be loaded alone
        jars += [CONNECTOR, KAFKA_CONNECTOR]
    if python:
        # Otherwise loaded for each job: 25 MB of class memory a job, which was never released (measured).
        # The last one: a class archive is valid for what begins with the class path that it was made of.
        jars += sorted((home / "opt").glob("flink-python-*.jar"))
    return [jar for jar in jars if jar.exists()]
