"""Warnings about logins, and the detection of secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from speck.core.inventory import Broker, Engine, Inventory, JobLogin, Login, Secret
from speck.schema.logins import broker_warnings, engine_warnings, inventory_warnings
from speck.schema.secret_detection import names_secret, secret_fault
from testbed.benches.examples import one_site

WITH_PASSWORD = Login(username="speck", password=Secret("${BROKER_PASSWORD}"))


@pytest.fixture(autouse=True)
def password_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "hunter2")


@pytest.mark.parametrize(
    "name",
    [
        *("password", "PASSWORD", "db_password", "dbPassword", "BROKER-PASSWORD", "passwd", "secret"),
        *(
            "clientSecret",
            "token",
            "api_token",
            "apiKey",
            "API_KEY",
            "access-key",
            "private_key",
            "credentials",
        ),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert names_secret(name)
    fault = secret_fault(name, "hunter2")
    assert fault is not None
    assert "hunter2" not in fault
    assert "expected the path of a file" in fault


@pytest.mark.parametrize(
    "name",
    ["password_file", "tokens_per_second", "key", "keyed_by", "secretary", "tokenizer", "monkey", "author"],
)
def test_names_of_other_things(name: str) -> None:
    assert secret_fault(name, "hunter2") is None


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ("-----BEGIN RSA PRIVATE KEY-----\nMII", True),
        ("-----BEGIN PRIVATE KEY-----", True),
        ("-----BEGIN CERTIFICATE-----", False),
        ("jdbc:postgresql://me:hunter2@db/streets", True),
        ("postgresql://me@db/streets", False),
        ("https://db/streets@9:1", False),
        ("at 9:30 @ home", False),
        (True, False),
    ],
)
def test_values_that_are_secrets(value: object, refused: bool) -> None:
    assert (secret_fault("database", value) is not None) is refused


def test_a_login_in_good_order_is_no_concern(tmp_path: Path) -> None:
    (file := tmp_path / "password").write_text("hunter2")
    file.chmod(0o640)
    assert broker_warnings(Broker(broker_address="mqtts://b:8883", broker_login=WITH_PASSWORD)) == []
    assert broker_warnings(Broker(broker_address="tcp://127.0.0.1:1883", broker_login=WITH_PASSWORD)) == []
    assert engine_warnings(Engine(spe_address="tcp://e:1", engine_login=Login(username="me"))) == []
    from_file = Login(username="me", password=Secret(f"file:{file}"), key_file=str(file))
    assert engine_warnings(Engine(spe_address="https://e/", engine_login=from_file)) == []


def test_a_secret_that_everybody_can_read(tmp_path: Path) -> None:
    (file := tmp_path / "password").write_text("hunter2")
    file.chmod(0o644)
    login = Login(username="me", password=Secret(f"file:{file}"), ca_file=str(file), key_file=str(file))
    found = engine_warnings(Engine(spe_address="https://e/", engine_login=login))
    assert [each.split()[0] for each in found] == ["engine_login.password", "engine_login.key_file"]
    assert f"every user of this machine can read (run chmod o= {file})" in found[0]
    assert "hunter2" not in "".join(found)


def test_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BROKER_PASSWORD")
    login = Login(username="speck", password=Secret("${BROKER_PASSWORD}"), ca_file=str(tmp_path / "none.pem"))
    (variable, file) = broker_warnings(Broker(broker_address="mqtts://b:8883", broker_login=login))
    assert variable == "broker_login.password is ${BROKER_PASSWORD}, an environment variable that is not set"
    assert file.startswith("broker_login.ca_file is '")
    assert file.endswith("which cannot be accessed (No such file or directory)")


@pytest.mark.parametrize(
    ("own", "jobs", "named"),
    [
        (WITH_PASSWORD, None, "broker_login"),
        (Login(), JobLogin(username="job", password_file="/etc/password"), "job_login"),
        (Login(), JobLogin(username="job", password=Secret("${BROKER_PASSWORD}")), "job_login"),
    ],
)
def test_a_password_in_the_clear(own: Login, jobs: JobLogin | None, named: str) -> None:
    (found,) = broker_warnings(Broker(broker_address="tcp://b:1883", broker_login=own, job_login=jobs))
    assert found == f"{named} is sent to tcp://b:1883 unencrypted (expected TLS, or a trusted network)"


def test_concerns_name_the_site() -> None:
    token = Login(token=Secret("${NO_SUCH_TOKEN}"))
    site = one_site("A", "sc://a:15002", "tcp://a:1883", login=WITH_PASSWORD, engine_login=token)
    broker = Broker(broker_address="tcp://c:1883", broker_login=WITH_PASSWORD)
    found = inventory_warnings(Inventory({"A": site}, {"cloud": broker}))
    assert [each.split(": ")[0] for each in found] == ["site 'A'", "'A'", "'cloud'"]
