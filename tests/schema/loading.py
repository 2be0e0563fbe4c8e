"""Loading of compositions from plain data, for the tests of the schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from speck.binder import Registry
from speck.core.inventory import Engine, Inventory, Site
from speck.errors import InvalidInput
from speck.schema.compositions import Loaded, load_composition
from testbed.benches.examples import REGISTRY, one_site

INVENTORY = Inventory(
    {
        "A": one_site("A", "sc://10.0.0.1:15002", "tcp://10.0.0.1:1883"),
        "D": one_site("D", "http://10.0.0.4:8081/", "tcp://10.0.0.4:1883"),
        "M": Site(
            name="M",
            engines=tuple(
                Engine(spe_address=each)
                for each in ("http://10.0.0.5:8081/", "sc://10.0.0.5:1", "sc://10.0.0.5:2")
            ),
            broker_address="tcp://10.0.0.5:1883",
        ),
    }
)

FLINK = {
    "job_name": "A",
    "spe_address": "http://172.16.39.7:8081/",
    "source_broker": "tcp://172.16.39.7:1883",
    "source_topic": "T-1",
    "sink_broker": "tcp://172.16.192.18:1883",
    "sink_topic": "T-C-filter",
    "entry_class": "package.ExampleJob",
    "job_path": "jars_and_apps/test-1.jar",
}
CLEAN = {**FLINK, "spe_address": "sc://10.0.0.1:15002", "entry_class": "clean", "job_path": "clean.py"}


def load(root: Path, *jobs: Any, **top: Any) -> Loaded:
    return load_data(root, {"jobs": list(jobs), **top})


def load_data(root: Path | Sequence[Path], data: Any, registry: Registry = REGISTRY) -> Loaded:
    """Load plain data as a client of the REST interface sends them."""
    return load_composition(
        json.dumps(data),
        inventory=INVENTORY,
        registry=registry,
        root=root,
        default_name="test",
        format="json",
    )


def read(root: Path, text: str | bytes, **options: Any) -> Loaded:
    return load_composition(
        text, inventory=INVENTORY, registry=REGISTRY, root=root, default_name="test", **options
    )


def faults_of(root: Path, *jobs: Any, **top: Any) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        load(root, *jobs, **top)
    return [str(fault) for fault in caught.value.faults]


def without(data: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in fields}
