"""The command that starts a Spark Connect server out of the installed pyspark package, for a small machine.

``java`` is started directly: ``spark-submit`` is a shell script that starts a Java process of its own only
to print this command.  A comment beside each setting gives the reason for it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from binders.common import class_archive
from binders.common.connectors import KAFKA_CONNECTOR
from binders.common.java import java as java_for
from binders.spark.query.spec import FILE_MANAGER, FILE_MANAGER_SETTING
from speck.errors import LocalError

ARCHIVE = "spark"  # of classes: see binders.common.class_archive
SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"

# The connector, where the build puts it and where the wheel contains it.
CONNECTOR = Path(__file__).resolve().parents[2] / "jars" / "spark-mqtt.jar"
SMALL_SERVER_CLASS = "io.speck.spark.mqtt.SmallServer"  # in the connector's jar
CONNECTORS = (CONNECTOR, KAFKA_CONNECTOR)

# Packages of the JDK that Spark opens by reflection (org.apache.spark.launcher.JavaModuleOptions).
_OPENED = (
    *("java.base/java." + name for name in ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio")),
    *("java.base/java.util" + name for name in ("", ".concurrent", ".concurrent.atomic")),
    *("java.base/sun." + name for name in ("nio.ch", "nio.cs", "security.action", "util.calendar")),
    "java.base/jdk.internal.ref",
    "java.security.jgss/sun.security.krb5",
)

JVM_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",  # options of newer or older Java than this one
    # By default a heap begins with 1/64 of the machine's memory, and all of its young generation is touched.
    "-Xms64m",
    "-XX:+UseSerialGC",  # the least memory and threads, right for a heap below some 2 GB
    "-XX:ReservedCodeCacheSize=96m",
    "-XX:MaxMetaspaceSize=384m",  # Spark compiles classes for each query, and each session has a class loader
    "-XX:-UsePerfData",  # no file in the system's temporary directory that a SIGKILL would leave behind
    "-Djava.net.preferIPv4Stack=true",
    # Otherwise Log4j walks the stack whenever an object asks for its logger, as each part of a plan does.
    "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector",
    "-Dio.netty.tryReflectionSetAccessible=true",  # Arrow and Netty free their direct memory by it
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)

_LOG_CONFIGURATION = Path(__file__).resolve().parent / "log4j2.properties"


def configuration(port: int, heap: str = "600m") -> dict[str, str]:
    """Spark's settings for a server on this loopback port; ``heap`` is a Java size such as ``600m``."""
    return {
        "spark.driver.memory": heap,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        # Otherwise an idle session is closed after an hour, and its streaming queries are stopped with it.
        "spark.connect.session.manager.defaultSessionTimeout": "-1",
        # 200 tasks and 200 state stores for each aggregation otherwise.
        "spark.sql.shuffle.partitions": "1",
        # A checkpoint from a site with other storage is written as files, also local ones.  (Clients of the
        # server can run any code there, and so write any file, anyway.)
        "spark.sql.artifact.copyFromLocalToFs.allowDestLocal": "true",
        # Spark brings one session extension, which registers two functions of MLlib by way of Scala's
        # reflection, with its 1,200 classes.  The small server alone observes this setting.
        "spark.sql.extensions.test.loadFromCp": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # For the web interface, which is off: memory that grows with every batch, up to these counts.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.ui.retainedExecutions": "5",
        "spark.pyspark.python": sys.executable,
    }


def connect_server_command(
    port: int,
    jars: Iterable[str | Path] = (),
    heap: str = "600m",
    extra_conf: Mapping[str, str] | None = None,
    *,
    directory: Path | None = None,
    cores: int = 2,
    real_time: int = 8,
    jvm_options: Iterable[str] = (),
) -> list[str]:
    """The command line of a Connect server on ``127.0.0.1:port``, with its heap and ``cores`` task slots.

    ``real_time`` is the number of further slots, for jobs in real time, each of which holds its own.

    ``jars`` go on the class path; with the connector, the server is a small one.  The server writes its files
    below ``directory``, which is created if needed, or else below its working directory.  To be started with
    :func:`connect_server_environment`.  Raises :class:`~speck.errors.LocalError` without Java or pyspark.
    """
    settings = configuration(port, heap)
    if directory is not None:
        settings["spark.sql.warehouse.dir"] = str(_created(directory / "warehouse"))
    if real_time:
        settings["spark.default.parallelism"] = str(cores)
    jars = [*jars]
    small = any(Path(jar).name == CONNECTOR.name for jar in jars)
    if small:
        settings[FILE_MANAGER_SETTING] = FILE_MANAGER
    settings |= extra_conf or {}
    return [
        *java_command(heap, jars, directory, jvm_options),
        "org.apache.spark.deploy.SparkSubmit",
        *(
            "--class",
            SMALL_SERVER_CLASS if small else SERVER_CLASS,
            "--master",
            f"local[{cores + real_time}]",
        ),
        *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
        "spark-internal",
    ]


def java_command(
    heap: str, jars: Iterable[str | Path], directory: Path | None, jvm_options: Iterable[str]
) -> list[str]:
    """The beginning of a command line that runs a class of Spark: Java, its options, its class path.

    See :func:`connect_server_command` for the arguments and errors.
    """
    options = [*JVM_OPTIONS, f"-Xmx{heap}", *jvm_options]
    if directory is not None:
        options.append(f"-Djava.io.tmpdir={_created(directory / 'tmp')}")
    return [
        java(),
        *options,
        *class_archive.options(ARCHIVE),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        f"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}",
        "-cp",
        os.pathsep.join([*_spark_jars(), *(str(jar) for jar in jars)]),
    ]


def scala_version() -> str:
    """The version of Scala that Spark's jars are built for, such as ``2.13``."""
    names = (Path(jar).name.split("_") for jar in _spark_jars())
    return next(parts[1].split("-")[0] for parts in names if parts[0] == "spark-core")


def connect_server_environment() -> dict[str, str]:
    """The environment of the server: this process's, Spark's own variables replaced."""
    # A SPARK_HOME or SPARK_CONF_DIR of another installation would mix two versions of Spark.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return inherited | {
        "MALLOC_ARENA_MAX": "2",  # glibc keeps up to 8 heaps a core otherwise
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(_spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def java() -> str:
    """The path of the Java program, as :func:`binders.common.java.java`."""
    return java_for("Spark")


def _spark_home() -> Path:
    specification = importlib.util.find_spec("pyspark")  # found, not imported
    if specification is None or specification.origin is None:
        raise LocalError("pyspark is not installed (pip install 'speck[spark]')")
    return Path(specification.origin).parent


def _spark_jars() -> list[str]:
    # In the order in which a worker puts them on the class path of its programs, so that they share an
    # archive of classes: the jar of SLF4J first, then all as the file system lists them.
    folder = _spark_home() / "jars"
    jars = [str(jar) for jar in folder.iterdir() if jar.suffix == ".jar"] if folder.is_dir() else []
    if not jars:
        raise LocalError(f"{_spark_home()} has no jars (expected the pyspark package with Spark inside)")
    first = [jar for jar in jars if Path(jar).name.startswith("slf4j-api-")]
    return first + jars


def _created(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory.resolve()
