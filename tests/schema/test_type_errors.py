"""Each field of each document with values of other kinds: the message names the field and what is right."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from speck.binder import QueryRunner, Registry
from speck.errors import InvalidInput
from speck.schema.compositions import load_composition
from speck.schema.inventory import load_inventory
from testbed.benches.examples import REGISTRY

Steps = tuple[str | int, ...]

INVENTORY: dict[str, Any] = {
    "sites": {
        "A": {
            "spe_address": "spark://a:7077",
            "broker_address": "mqtts://a:8883",
            "job_broker_address": "mqtts://mosquitto:8883",
            "max_queued_bytes": "1 GiB",
            "rest_port": 6066,
            "ui_port": 8080,
            "slots": 8,
            "memory": "1 GiB",
            "checkpoint_dir": "/var/lib/speck",
            "savepoint_dir": "/var/lib/speck",
            "speed": 1.5,
            "price": 2,
            "uplink": {"bandwidth": "10 Mbit/s", "downlink": 1000, "latency": "5 ms"},
            "labels": ["edge"],
            "tier": "edge",
            "broker_login": {"username": "speck", "password": "${P}", "ca_file": "/ca.pem"},
            "job_login": {"username": "jobs", "password_file": "/p", "ca_file": "/ca.pem"},
        },
        "D": {
            "engines": [
                {"spe_address": "sc://d:15002", "engine_login": {"token": "${T}", "ca_file": "/ca.pem"}},
                {
                    "spe_address": "spark://d:7077",
                    "scale": {
                        "min": 0,
                        "max": 4,
                        "cores": 2,
                        "memory": "1 GiB",
                        "command": ["/bin/workers", "{count}"],
                        "idle": "60 s",
                        "predictor": {"steep": "10/s", "rise": 5, "waiting": 100, "pause": "5 s"},
                    },
                },
            ],
            "broker_address": "tcp://d:1883",
        },
        "P": {
            "engines": [
                {
                    "spe_address": "http://p:8081",
                    "pool": "small",
                    "cores": 1,
                    "hook": {"url": "https://p:1/x", "token": "${T}", "idle": "60 s"},
                }
            ],
            "broker_address": "tcp://p:1883",
        },
        "E": {"spe_address": "sc://e:15002", "broker_address": "tcp://e:1883"},
        "F": {"spe_address": "http://f:8081", "broker_address": "tcp://f:1883"},
    },
    "brokers": {"cloud": {"broker_address": "tcp://cloud:1883"}},
    "links": [{"from": "A", "to": "D", "bandwidth": "10 Mbit/s", "latency": "5 ms"}],
}

CODE = {"entry_class": "work", "job_path": "work.py"}
COMPOSITION: dict[str, Any] = {
    "name": "all",
    "placement": {
        "mode": "auto",
        "policy": "speck",
        "weights": {"latency": 0.5, "wan": 0.4, "cores": 0.1},
        "utilisation": "70%",
        "max_age": "1 minute",
        "max_wan": "10 Mbit/s",
        "stamps": "text",
        "min_gain": "10%",
        "cooldown": "5 minutes",
        "horizon": "1 hour",
        "steps_per_hour": 3,
        "group": 2,
    },
    "sources": {"raw": "readings", "raw/+": {"description": "readings", "shared": True}},
    "topics": {
        "raw/+": {
            "description": "readings",
            "shared": True,
            "as": "readings",
            "at": ["F"],
            "format": "csv",
            "schema": {"time": "timestamp(ms) not null", "town": "string", "speed": "double"},
            "event_time": "time",
            "watermark": "1 s",
        }
    },
    "jobs": [
        CODE
        | {
            "job_name": "a",
            "site": "D",
            "spe_address": "sc://d:15002",
            "engine": "spark",
            "source_broker": "D",
            "source_topic": "raw",
            "start": "latest",
            "sink_broker": "cloud",
            "sink_topic": "clean",
            "arguments": {"limit": 3, "town": "Ulm"},
            "parallelism": 2,
            "upgrade": "stateful",
            "trigger": "2 seconds",
            "output_mode": "append",
            "timezone": "Europe/Berlin",
            "restart": "always",
            "on_error": "park",
            "park_topic": "parked",
            "retain": False,
            "labels": {"owner": "traffic"},
            "expects": {"rate": "5/s", "bytes": 10, "cost": "20 us", "selectivity": 0.5, "state": "1 MB"},
        },
        CODE
        | {
            "job_name": "b",
            "sites": ["D", "E"],
            "engine": "spark",
            "source_broker": "D",
            "source_topic": "raw",
            "sink_broker": "D",
            "sink_topic": "b",
            "pin": True,
            "apart": ["c-d"],
        },
        CODE
        | {
            "job_name": "c-${each.site:lower}",
            "for_each": {"site": ["D"]},
            "spe_address": "sc://d:15002",
            "source_topic": "raw",
            "sink_topic": "c",
        },
        CODE
        | {
            "job_name": "e-${each.site:lower}",
            "for_each": {"sites": {"label": "edge"}},
            "spe_address": "sc://d:15002",
            "source_topic": "raw",
            "sink_topic": "e",
        },
        {
            "job_name": "s",
            "entry_class": "work",
            "job_path": "work.py",
            "spe_address": "sc://d:15002",
            "source_broker": "D",
            "source_topic": "raw",
            "sink_broker": "D",
            "sink_topic": "s",
            "key_split": {
                "combiners": [
                    {"spe_address": "sc://d:15002", "weight": 2, "parallelism": 2},
                    {"spe_address": "sc://x:15002", "arguments": {"limit": 4}},
                ],
                "partitioner": "balanced",
                "window": "60 s",
                "slide": "10 s",
                "lateness": "1 s",
                "options": {},
                "reducer": {"spe_address": "sc://d:15002"},
                "weights": "fixed",
                "metrics": {"window": "60 s", "slide": "10 s"},
                "seed": 7,
            },
        },
        {
            "job_name": "q",
            "engine": "flink",
            "cut": {"readings": "filter"},
            "rest": "F",
            "format": "json",
            "sql": "SELECT window_end, town, COUNT(*) AS n FROM TUMBLE(readings, time, INTERVAL '5' SECOND) "
            "WHERE speed > :least GROUP BY window_start, window_end, town",
            "arguments": {"least": 3},
            "sink_topic": "q",
        },
    ],
}
VALUES: list[Any] = [
    *(3, float("nan"), True, datetime.date(2024, 1, 31)),
    *("\x07", "no such thing"),
    *([None], ["x", "x"], {"a": {"b": []}}),
]
# A message says what is right by one of these.
RIGHT = re.compile(
    r"\(expected |; expected|expected\b|did you mean|put it in quotes|known: |installed: |the fields are |"
    r"from -?[\d,.]+ to|contains a control character|looks like a secret"
)
LIBRARY = re.compile(
    "Not a valid|Field may not|Missing data|Invalid|Unknown field|Shorter|Longer|Length must"
)


def paths(value: Any, before: Steps = ()) -> Iterator[Steps]:
    """The path of each value inside of another one."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*before, key)
        yield from paths(each, (*before, key))


def with_value(document: Any, path: Steps, value: Any) -> Any:
    changed = deepcopy(document)
    outer = changed
    for step in path[:-1]:
        outer = outer[step]
    outer[path[-1]] = value
    return changed


def named(path: Steps) -> str:
    """The words by which a message names the value at a path of a document."""
    block, *inner = path
    if not inner:
        return str(block)
    if block == "placement":
        return ".".join(map(str, inner))
    if len(inner) > 1:
        return ".".join(map(str, inner[1:]))
    if block in ("jobs", "links"):
        return f"{block}[{inner[0]}]"
    kind = {"sites": "site", "brokers": "broker"}.get(str(block), f"{block}:")
    return f"{kind} {inner[0]!r}"


def faults(read: Callable[[str], object], document: Any) -> list[str]:
    try:
        read(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    except InvalidInput as error:
        return [str(each) for each in error.faults]
    return []


@pytest.fixture(name="composition")
def composition_fixture(tmp_path: Path) -> Callable[[str], object]:
    (tmp_path / "work.py").write_text("def work(messages, limit=1, town=''):\n    return messages\n")
    (tmp_path / "runner.jar").write_bytes(b"the program")
    runner = QueryRunner(tmp_path / "runner.jar", "io.speck.Run", panes=True)
    kinds = [replace(each, queries=runner, aggregation=lambda *_: ()) for each in REGISTRY.engines]
    registry = Registry(tuple(kinds), REGISTRY.brokers)
    inventory = load_inventory(yaml.safe_dump(INVENTORY))

    def read(text: str) -> object:
        return load_composition(
            text, inventory=inventory, registry=registry, root=tmp_path, default_name="all"
        )

    return read


def is_named(path: Steps, value: Any, messages: list[str]) -> bool:
    """True if a message names the value at a path, or what it is in; an empty block may lack what is used."""
    if len(path) == 1 and (value == [] or isinstance(value, dict)):
        return True
    return any(named(each) in message for each in (path, path[:-1] or path) for message in messages)


def check(read: Callable[[str], object], document: Any, path: Steps, values: Sequence[Any]) -> list[str]:
    """The messages about values of other kinds at a path that are not as they should be."""
    wrong = []
    for value in values:
        found = faults(read, with_value(document, path, value))
        if found and not is_named(path, value, found):
            wrong.append(f"{path} = {value!r} is not named: {found}")
        wrong += [
            f"{path} = {value!r}: {each}"
            for each in found
            if not RIGHT.search(each) or LIBRARY.search(each) or not each.isprintable()
        ]
    return wrong


@pytest.mark.slow("hundreds of inventories")
def test_values_of_other_kinds_in_an_inventory() -> None:
    assert faults(load_inventory, INVENTORY) == []
    some = VALUES[::2]
    wrong = [each for path in paths(INVENTORY) for each in check(load_inventory, INVENTORY, path, some)]
    assert wrong == []


@pytest.mark.slow("hundreds of compositions")
def test_values_of_other_kinds_in_a_composition(composition: Callable[[str], object]) -> None:
    assert faults(composition, COMPOSITION) == []
    some = VALUES[::4]
    wrong = [each for path in paths(COMPOSITION) for each in check(composition, COMPOSITION, path, some)]
    assert wrong == []
