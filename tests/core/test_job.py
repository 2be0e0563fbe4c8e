from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from speck.core.inventory import Broker, Engine, Inventory, JobLogin, Login, Secret
from speck.core.job import JOB_FIELDS, ChangeCost, FieldChange, Job, changed_fields, form_fingerprint
from speck.core.placement import Expects
from speck.errors import InvalidInput, SecretUnavailable
from testbed.benches.examples import job, one_site

PLAIN_FORM = "2454c79e49f373e3"

FULL: dict[str, Any] = {
    "site": "A",
    "arguments": {"window": "5 minutes", "limit": 3},
    "parallelism": 2,
    "upgrade": "stateless",
    "trigger": "2 seconds",
    "output_mode": "update",
    "timezone": "Europe/Berlin",
    "restart": "never",
    "on_error": "park",
    "park_topic": "parked",
    "retain": True,
    "labels": {"owner": "traffic"},
    "sites": ("A", "D"),
    "pin": True,
    "with_job": "B",
    "apart": ("C", "D"),
    "expects": Expects(rate=500.0, bytes=110.0, cost=2e-5, selectivity=0.98, state=0.0),
    "placed": ("spe_address", "sink_broker"),
}


@pytest.mark.parametrize("fields", [{}, FULL])
def test_a_job_survives_being_stored_as_json(fields: dict[str, Any]) -> None:
    before = job("A", **fields)
    assert Job.from_dict(json.loads(json.dumps(before.to_dict()))) == before


def test_fields_at_their_default_are_not_stored() -> None:
    assert not job("A").to_dict().keys() & FULL.keys()


def test_every_field_but_the_name_declares_what_its_change_costs() -> None:
    assert set(JOB_FIELDS) == {each.name for each in dataclasses.fields(Job)} - {"job_name"}


def test_changed_fields_come_in_the_order_of_the_declaration() -> None:
    changes = changed_fields(job("A"), job("A", sink_topic="new", spe_address="http://cloud:8081/"))
    assert changes == (
        FieldChange("spe_address", "http://edge:8081/", "http://cloud:8081/"),
        FieldChange("sink_topic", "out", "new"),
    )


def test_a_job_of_before_on_error_has_the_form_that_it_had() -> None:
    """Copies are recognised by it, those that an older version started included."""
    assert form_fingerprint(job("A")) == PLAIN_FORM
    assert form_fingerprint(job("A", on_error="skip")) != PLAIN_FORM
    assert form_fingerprint(job("A", output_mode="update")) != PLAIN_FORM
    assert form_fingerprint(job("A", timezone="Europe/Berlin")) != PLAIN_FORM
    assert form_fingerprint(job("A", retain=True)) != PLAIN_FORM


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 1.0), (0, False), (1, "1")])
def test_an_argument_of_another_type_is_a_change(before: Any, after: Any) -> None:
    changes = changed_fields(job("A", arguments={"limit": before}), job("A", arguments={"limit": after}))
    assert [each.field for each in changes] == ["arguments"]
    assert JOB_FIELDS["arguments"] is ChangeCost.UPDATE


def test_the_order_of_arguments_is_no_change() -> None:
    before, after = job("A", arguments={"a": 1, "b": 2}), job("A", arguments={"b": 2, "a": 1})
    assert changed_fields(before, after) == ()


def test_a_secret_written_out_is_refused_without_being_repeated() -> None:
    with pytest.raises(InvalidInput) as caught:
        Secret("hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_secret_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "hunter2")
    secret = Secret("${BROKER_PASSWORD}")
    assert secret.reveal() == "hunter2"
    assert "hunter2" not in repr(secret)


def test_a_secret_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    assert Secret(f"file:{tmp_path / 'password'}").reveal() == "hunter2"


@pytest.mark.parametrize("reference", ["${SPECK_NO_SUCH_VARIABLE}", "file:/no/such/file"])
def test_a_reference_that_leads_nowhere_is_named(reference: str) -> None:
    with pytest.raises(SecretUnavailable, match=r"is not set|cannot be read"):
        Secret(reference).reveal()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b" \n", "is empty"),
        (b"hunter2\xff", "not UTF-8 text"),
        (b"hunter2" * 10_000, r"too long \(expected at most 65,535 bytes\)"),
        ("hünter2".encode() * 8_192, r"too long \(expected at most 65,535 bytes\)"),
    ],
)
def test_what_is_no_secret_is_named_and_not_shown(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "password").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PASSWORD", os.fsdecode(content))
        for reference in (f"file:{tmp_path / 'password'}", "${PASSWORD}"):
            with pytest.raises(SecretUnavailable, match=words) as caught:
                Secret(reference).reveal()
            assert caught.value.__cause__ is None
            assert "nter2" not in str(caught.value)
            assert "\n" not in str(caught.value)


def test_the_inventory_knows_the_site_of_an_engine_and_the_login_of_a_broker() -> None:
    login = Login(username="speck")
    site = one_site("A", "sc://a:15002", "tcp://a:1883", login=login)
    inventory = Inventory({"A": site})
    assert inventory.site_of_engine("sc://a:15002") is site
    assert inventory.site_of_engine("sc://b:15002") is None
    assert inventory.engine("sc://a:15002") is site.engines[0]
    assert inventory.engine("sc://b:15002") == Engine(spe_address="sc://b:15002")
    assert inventory.broker_login("tcp://a:1883") is login
    assert inventory.broker_login("tcp://b:1883") == Login()


def test_jobs_log_in_as_the_coordinator_does_unless_it_is_said_how() -> None:
    login = Login(username="speck", password=Secret("${BROKER_PASSWORD}"), ca_file="/ca.pem")
    own = JobLogin(username="jobs", password_file="/etc/speck/password")
    brokers = {
        "cloud": Broker(broker_address="mqtts://cloud:8883", broker_login=login),
        "other": Broker(broker_address="mqtts://other:8883", broker_login=login, job_login=own),
    }
    inventory = Inventory({"A": one_site("A", "sc://a:15002", "tcp://a:1883")}, brokers)
    assert inventory.job_login("mqtts://cloud:8883") == JobLogin(
        username="speck", password=Secret("${BROKER_PASSWORD}"), ca_file="/ca.pem"
    )
    assert inventory.job_login("mqtts://other:8883") is own
    assert inventory.job_login("tcp://a:1883") == inventory.job_login("tcp://nowhere:1883") == JobLogin()
    assert inventory.broker_named("cloud") is brokers["cloud"]
    assert inventory.broker_named("A") is inventory.sites["A"]
    assert inventory.broker_named("nowhere") is None
