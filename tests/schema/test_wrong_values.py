"""Wrong values and misspelt names of fields in an inventory: the field, its line, and what is right."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from speck.errors import InvalidInput
from speck.schema.compositions import load_composition
from speck.schema.inventory import load_inventory
from testbed.benches.examples import REGISTRY
from tests.schema.loading import INVENTORY

SITE: dict[str, Any] = {
    "spe_address": "https://a:8081",
    "broker_address": "mqtts://a:8883",
    "cores": 2,
    "uplink": {"latency": "5 ms"},
    "broker_login": {"username": "u", "password": "${P}"},
}


def fault_of(site: dict[str, Any]) -> str:
    with pytest.raises(InvalidInput) as refusal:
        load_inventory(yaml.safe_dump({"sites": {"A": site}}, sort_keys=False))
    (fault,) = refusal.value.faults
    assert fault.line is not None
    return str(fault)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"engines": True},
            "engines true is not a list (expected a list of engines, each with 'spe_address:')",
        ),
        ({"cores": 10**15}, "cores 1000000000000000 is out of range (expected from 0 to 1,000,000)"),
        ({"cores": float("nan")}, "cores nan is not a valid quantity (expected, for example, 1.5)"),
        ({"cores": -1}, "cores -1 is not a valid quantity (expected, for example, 1.5)"),
        ({"speed": 10**6}, "speed 1000000 is out of range (expected from 0 to 1,000)"),
        ({"price": 10**9}, "price 1000000000 is out of range (expected from 0 to 1,000,000)"),
        (
            {"uplink": {"latency": "1 h"}},
            "uplink.latency '1 h' is out of range (expected from 0 to 600,000 ms)",
        ),
        ({"uplink": {"latencey": 5}}, "unknown field 'uplink.latencey' (did you mean 'latency'?)"),
        ({"broker_login": {"username": "u", "passwrod": "${P}"}}, "unknown field 'passwrod' (did you mean"),
        ({"engine_login": {"tokens": "${T}"}}, "unknown field 'tokens' (did you mean 'token'?)"),
    ],
)
def test_a_wrong_value_or_name_is_reported_with_what_is_right(changed: dict[str, Any], words: str) -> None:
    given = SITE | changed
    if "engines" in changed:
        del given["spe_address"]
    assert words in fault_of(given)


def test_a_number_of_hundreds_of_digits_is_a_fault(tmp_path: Any) -> None:
    split = {"combiners": 2, "window": "60 s", "options": {"tolerance": 10**400}}
    job = {
        "job_name": "a",
        "site": "A",
        "source_topic": "in",
        "sink_topic": "out",
        "entry_class": "work",
        "job_path": "work.py",
        "key_split": split,
    }
    (tmp_path / "work.py").write_text("def work(messages): ...\n")
    with pytest.raises(InvalidInput, match="is too large"):
        load_composition(
            json.dumps({"jobs": [job]}),
            inventory=INVENTORY,
            registry=REGISTRY,
            root=tmp_path,
            default_name="test",
            format="json",
        )
