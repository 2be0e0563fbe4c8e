"""SQL jobs on a Spark server and a Flink cluster, for the tests that run them there."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from binders.flink import QUERIES
from speck.binder import installed
from speck.coordinator import Services
from speck.core.inventory import Inventory
from speck.core.plan import Plan
from speck.schema.compositions import Loaded, load_composition
from speck.sql.program import Program
from testbed.benches import user
from testbed.benches.mqtt_client import MqttClient

PATIENCE = 90.0
BUILT = pytest.mark.skipif(
    not QUERIES.path.exists(), reason="the program of SQL jobs is not built (make jars)"
)


@dataclass
class Bench:
    services: Services
    inventory: Inventory
    mqtt_client: MqttClient
    other: MqttClient  # at the broker of site G
    applied: set[str] = field(default_factory=set)  # names of compositions

    def apply(self, text: str) -> dict[str, Program]:
        """Apply a composition anew, so that a repeated test finds neither its queries nor their results."""
        loaded = self._load(text)
        self.delete(loaded.composition.name)
        self.mqtt_client.received.clear()
        self.other.received.clear()
        self._apply(loaded)
        jobs = loaded.composition.jobs.values()
        return {each.job_name: Program.from_json(str(each.query["program"])) for each in jobs}

    def change(self, text: str) -> dict[str, str]:
        """Apply a composition, and return the action on each of its jobs."""
        plan = self._apply(self._load(text))
        return {each.job.job_name: type(each).__name__.lower() for each in plan.actions}

    def delete(self, name: str) -> None:
        """Delete a composition, if it was applied."""
        if name in self.applied:
            operation = user.delete_composition(self.services.coordinator, name)
            assert operation.wait(PATIENCE)
            assert operation.state == "succeeded", operation.to_dict()
            self.applied.remove(name)

    def _load(self, text: str) -> Loaded:
        return load_composition(
            text, inventory=self.inventory, registry=installed(), root=(), default_name="sql-test"
        )

    def _apply(self, loaded: Loaded) -> Plan:
        self.applied.add(loaded.composition.name)
        operation, plan = user.apply(self.services.coordinator, loaded.composition)
        assert operation.wait(PATIENCE)
        assert operation.state == "succeeded", operation.to_dict()
        return plan

    def received(self, topic: str) -> list[str]:
        return [value for name, value in list(self.mqtt_client.received) if name == topic]
