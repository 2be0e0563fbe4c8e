"""Measurements of a link and of a core at a server, by the connector's data source ``mqtt-probe``."""

from __future__ import annotations

from typing import Any

from binders.common.probe_topic import probe_topic
from binders.spark.connect.grpc_client import ConnectClient, ServerRefused
from binders.spark.connect.probe import ServerProbe
from binders.spark.connect.protocol import pb2
from binders.spark.query.options import probe_options, reach_options
from speck.core.inventory import Inventory
from speck.core.profile import CoreProbe, LinkProbe
from speck.errors import OutcomeUnknown, Rejected

_FORMAT = "mqtt-probe"
_DEADLINE = 90.0  # s, on a slow link too


class Measurements:
    """Runs one task at a server for each measurement."""

    def __init__(self, client: ConnectClient, probe: ServerProbe, inventory: Inventory) -> None:
        self._client, self._probe, self._inventory = client, probe, inventory

    def link(self, broker: str) -> LinkProbe:
        """Measure the link to a broker by messages to a topic without a reader, at most 4 MiB."""
        options = probe_options(broker, probe_topic(broker), self._inventory)
        found = self._row(options, f"the probe of the link to {broker}")
        return LinkProbe(
            rtt=found["rttMillis"] / 1000, bandwidth=found["bytesPerSecond"], bytes_sent=found["probeBytes"]
        )

    def reach(self, broker: str) -> float:
        """The round trip to a broker by one small message, s."""
        options = reach_options(broker, probe_topic(broker), self._inventory)
        return float(self._row(options, f"the connection to {broker}")["rttMillis"]) / 1000

    def core(self) -> CoreProbe:
        """Measure a core by a task that takes some seconds of it."""
        found = self._row({}, "the probe of a core")
        return CoreProbe(stateless=found["statelessPerSecond"], keyed=found["keyedPerSecond"])

    def _row(self, options: dict[str, str], what: str) -> dict[str, Any]:
        source = pb2.Read.DataSource(format=_FORMAT, options=options)
        relation = pb2.Relation(read=pb2.Read(data_source=source))
        address = self._probe.address
        try:
            rows = self._probe.ask(lambda session: self._client.rows(session, relation, _DEADLINE))
        except ServerRefused as error:
            if error.error_class == "DATA_SOURCE_NOT_FOUND":
                message = f"{address} has no data source {_FORMAT!r} (expected this version's spark-mqtt.jar)"
                raise Rejected(message, address=address) from error
            raise Rejected(f"{what} has failed: {error}", address=address) from error
        if len(rows) != 1:
            raise OutcomeUnknown(f"{address}: {what} gave {len(rows)} rows (expected 1)", address=address)
        return rows[0]
