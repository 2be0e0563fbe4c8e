"""The broker between the jobs of a rig, of either kind, behind a link that may be cut."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from testbed.servers.kafka import KafkaServer
from testbed.servers.mosquitto import MosquittoServer


class MqttMiddle(MosquittoServer):
    """A Mosquitto."""

    scheme = "tcp"

    def __init__(self, directory: Path, settings: str) -> None:
        super().__init__(directory, settings)

    def reached_at(self, port: int) -> None:
        """Nothing: a client of MQTT stays at the address that it was given."""

    def topic(self, number: int) -> str:
        """The topic between two jobs."""
        return f"mid/{number}"

    def forget(self) -> None:
        """Delete all that the broker has stored, while it does not run."""
        (self.directory / "mosquitto.db").unlink(missing_ok=True)


class KafkaMiddle(KafkaServer):
    """A Kafka, which names the port of the link to its clients; of settings, it has none."""

    scheme = "kafka"

    def __init__(self, directory: Path, settings: str = "") -> None:
        super().__init__(directory)
        self._advertised = self.port

    def reached_at(self, port: int) -> None:
        """Name this port to clients."""
        self._advertised = port

    def commands(self) -> Sequence[Sequence[str]]:
        """See :meth:`RealServer.commands`; of two settings in a file of Java's, the last one counts."""
        commands = super().commands()
        with (self.directory / "server.properties").open("a", encoding="utf-8") as file:
            file.write(f"advertised.listeners=PLAINTEXT://127.0.0.1:{self._advertised}\n")
        return commands

    def topic(self, number: int) -> str:
        """The topic between two jobs."""
        return f"mid.{number}"

    def forget(self) -> None:
        """Delete all that the broker has stored, while it does not run."""
        shutil.rmtree(self.directory / "data")

    def cut(self, topic: str, size: int) -> None:
        """Delete the last bytes of a topic, while the broker does not run, as a power cut does."""
        newest = max((self.directory / "data" / f"{topic}-0").glob("*.log"))
        with newest.open("r+b") as file:
            file.truncate(max(0, newest.stat().st_size - size))


Middle = MqttMiddle | KafkaMiddle
MIDDLES: dict[str, type[MqttMiddle] | type[KafkaMiddle]] = {"mqtt": MqttMiddle, "kafka": KafkaMiddle}
