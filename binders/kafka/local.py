"""A Kafka on this machine, in one process without replicas, for :mod:`speck.local.sites`."""

from __future__ import annotations

import base64
import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binders.common.java import java
from binders.kafka.probe import answers
from speck.core.durable_files import rewrite_file
from speck.errors import LocalError

_LOOPBACK = "127.0.0.1"
_NODE = 1

# A small heap and one garbage collector thread, since the server shares the machine with engines.
_JVM_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Xms64m",
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xss512k",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
)

_LOGGING = """\
status = warn
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


@dataclass(frozen=True, slots=True)
class KafkaServer:
    """The :class:`~speck.binder.LocalServer` of Kafka, at ``host``; the second port is its controller's."""

    host: str = _LOOPBACK
    ports = 2

    def at(self, host: str, states: Path) -> KafkaServer:
        """See :meth:`speck.binder.devserver.Networked.at`; no job keeps anything here."""
        return KafkaServer(host)

    def address(self, ports: Sequence[int]) -> str:
        """``kafka://HOST:PORT``."""
        return f"kafka://{self.host}:{ports[0]}"

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        """See :meth:`speck.binder.LocalServer.command`; ``heap`` is of engines, a broker has 256 MB."""
        program, jars = java("Kafka"), server_jars()
        data = directory.resolve() / "data"
        data.mkdir(parents=True, exist_ok=True)
        _format(data / "meta.properties")
        properties, logging = directory / "server.properties", directory / "log4j2.properties"
        properties.write_text(_properties(self.host, ports, data), encoding="utf-8")
        logging.write_text(_LOGGING, encoding="utf-8")
        command = [
            program,
            *_JVM_OPTIONS,
            f"-Dlog4j2.configurationFile={logging.resolve().as_uri()}",
            *("-cp", str(jars / "*"), "kafka.Kafka", str(properties)),
        ]
        return command, dict(os.environ)

    def ready(self, ports: Sequence[int]) -> bool:
        """True if the broker answers with the versions of its requests."""
        try:
            return answers(self.host, ports[0], timeout=2)
        except (OSError, ValueError):
            return False

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        """Empty: a broker has no fields but its address."""
        return {}


KAFKA_SERVER = KafkaServer()


def server_jars() -> Path:
    """The folder of the server's jars: of a distribution, or of this environment.

    Raises :class:`~speck.errors.LocalError`, which says how to get them.
    """
    home = os.environ.get("KAFKA_HOME")
    folder = Path(home) / "libs" if home else Path(sys.prefix) / "share" / "speck" / "kafka"
    if any(folder.glob("kafka_2.13-*.jar")):
        return folder
    if home:
        raise LocalError(f"KAFKA_HOME is {home!r} and has no libs/kafka_2.13-*.jar (expected a Kafka 4)")
    raise LocalError(
        "Kafka, the broker of a local site, is not installed: set KAFKA_HOME to the folder of a distribution "
        "of Kafka 4, or run make kafka in SpecK's repository, which needs Maven"
    )


def _format(path: Path) -> None:
    """Give a directory of data its identity, as ``kafka-storage format`` does, unless it has one."""
    if not path.exists():
        content = {"version": 1, "cluster.id": _uuid(), "node.id": _NODE, "directory.id": _uuid()}
        # With a half-written one, as a full disk leaves it, the broker would never start again.
        rewrite_file(path, "".join(f"{name}={value}\n" for name, value in content.items()).encode("ascii"))


def _uuid() -> str:
    """A random id in Kafka's form: 16 bytes in the URL alphabet of base64, not beginning with a dash."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _properties(host: str, ports: Sequence[int], data: Path) -> str:
    broker, controller = ports
    settings = {
        "process.roles": "broker,controller",
        "node.id": _NODE,
        "controller.quorum.voters": f"{_NODE}@{host}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{host}:{broker},CONTROLLER://{host}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{host}:{broker}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.dedupe.buffer.size": 2097152,
        "num.network.threads": 2,
        "num.io.threads": 2,
    }
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        settings |= {f"{topic}.num.partitions": 1, f"{topic}.replication.factor": 1}
    settings |= {"transaction.state.log.min.isr": 1, "share.coordinator.state.topic.min.isr": 1}
    return "".join(f"{name}={value}\n" for name, value in settings.items())
