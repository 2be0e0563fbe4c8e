"""The demo with a Kafka in the cloud, between the jobs there; sensors and results use MQTT."""

from __future__ import annotations

from collections.abc import Mapping

from speck.cli.demo.programs import Feeder, Watcher
from speck.cli.demo.stages import CLOUD, Demo, Scenario

# Sensors use MQTT, so that those of the cloud report to another site; and so do those who read results.
_AT = "A"


class KafkaDemo(Demo):
    """The demo with a Kafka as the broker of the cloud."""

    _scenario = Scenario(
        "road_traffic_kafka.yaml", "road_traffic_kafka_edited.yaml", brokers={CLOUD: "kafka"}
    )

    def _feed(self, name: str, share: float, *selection: object) -> Feeder:
        topics = [f"{CLOUD}/{stream}=sensors/{CLOUD.lower()}{stream}" for stream in (1, 2)]
        routes = [word for topic in topics for word in ("--topic", topic)]
        # A feeder takes the last of two brokers of one site.
        return super()._feed(name, share, f"--broker={CLOUD}={self._brokers[_AT]}", *routes, *selection)

    def _statistics(self) -> Mapping[str, str]:
        return {**self._brokers, CLOUD: f"{self._brokers[_AT]}/local-stats/{CLOUD.lower()}"}

    def _start_watcher(self) -> Watcher:
        return Watcher.of_statistics(self._statistics(), self._brokers[_AT], self._directory)
