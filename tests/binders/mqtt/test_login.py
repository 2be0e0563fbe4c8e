"""Logins to a real broker that demands them: password, TLS, certificates of both sides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from binders.mqtt import MqttBroker
from speck.core.inventory import Broker, Inventory, Login, Secret
from speck.errors import BinderError, Rejected, SecretUnavailable, Unreachable
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.servers.base import free_port
from testbed.servers.certificates import Certificate
from testbed.servers.guarded_broker import USER, GuardedBroker, guarded_broker
from testbed.servers.mosquitto import MosquittoServer

pytestmark = pytest.mark.engine

CONFIGURATION = ROOT / "pipelines" / "mosquitto.conf"
PASSWORD = "s3cret-of-the-broker"
SESSION = "speck-login"


@pytest.fixture(scope="module", name="broker")
def broker_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    with guarded_broker(tmp_path_factory.mktemp("guarded"), PASSWORD) as broker:
        yield broker


@pytest.fixture(autouse=True)
def password_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", PASSWORD)


def trusting(broker: GuardedBroker, **fields: object) -> Login:
    return replace(Login(ca_file=str(broker.authority.file)), **fields)  # type: ignore[arg-type]


def with_password(broker: GuardedBroker) -> Login:
    return trusting(broker, username=USER, password=Secret("${BROKER_PASSWORD}"))


def showing(broker: GuardedBroker, certificate: Certificate) -> Login:
    return trusting(broker, certificate_file=str(certificate.file), key_file=str(certificate.key))


def binder(address: str, login: Login) -> MqttBroker:
    return MqttBroker(address, Inventory({}, {"b": Broker(broker_address=address, broker_login=login)}))


def failure(address: str, login: Login) -> BinderError:
    with pytest.raises(BinderError) as caught:
        binder(address, login).check()
    said = str(caught.value)
    assert PASSWORD not in said + repr(caught.value.__cause__)
    assert "\n" not in said
    assert address in said
    return caught.value


def works(address: str, login: Login) -> None:
    made = binder(address, login)
    made.check()
    made.ensure_session(SESSION, "in")
    assert made.session_exists(SESSION)
    made.delete_session(SESSION)


def test_the_right_password(broker: GuardedBroker) -> None:
    works(broker.password, with_password(broker))


def test_the_topics_that_the_documentation_asks_for_are_enough(broker: GuardedBroker) -> None:
    """And no others are there for who has this password: not even what the broker tells of itself."""
    made = binder(broker.password, with_password(broker))
    assert made.warnings() == []
    made.ensure_session(SESSION, "in/a")
    for attempt in (3, 2):
        made.fence(SESSION, attempt)
    assert made.waiting(SESSION) == 0
    made.delete_session(SESSION)
    assert not made.session_exists(SESSION)
    anybody = MqttBroker(broker.address, Inventory())
    eventually(anybody.stored, lambda count: count is not None)
    assert made.stored() is None
    for each in (made, anybody):
        each.close()


def test_who_may_not_use_speck_s_own_topics_is_told_so(broker: GuardedBroker) -> None:
    """At once, and not as one that gives no answer, for whom a job would wait."""
    made = binder(broker.narrow, with_password(broker))
    for call in (lambda: made.ensure_session(SESSION, "in/a"), lambda: made.fence(SESSION, 1)):
        with pytest.raises(Rejected, match=r"refused a message to 'speck/.*': Not authorized"):
            call()
    (warning,) = made.warnings()
    assert re.search(r"could not be measured: .* refused a message to 'speck/.*': Not authorized", warning)
    made.close()


def test_a_broker_for_other_machines_as_its_configuration_has_it(
    broker: GuardedBroker, tmp_path: Path
) -> None:
    """With the lines that stand as comments in pipelines/mosquitto.conf, and files of the test's own."""
    sound, _, others = CONFIGURATION.read_text(encoding="utf-8").partition("\nlistener 1883 127.0.0.1\n")
    lines = re.findall(r"^#   (\S.*)$", others, re.MULTILINE)
    access = [line for line in lines if line.split()[0] in ("user", "topic")]
    assert len(access) == 3
    (tmp_path / "access").write_text("".join(f"{line}\n" for line in access))
    good = broker.authority.certificate("site", "127.0.0.1")
    own = {
        "listener": f"{(port := free_port())} 127.0.0.1",
        "certfile": str(good.file),
        "keyfile": str(good.key),
        "password_file": str(broker.authority.directory / "passwords"),
        "acl_file": str(tmp_path / "access"),
    }
    settings = [line for line in lines if line not in access]
    names = [line.split()[0] for line in settings]
    assert own.keys() < set(names)
    asked = [
        f"{name} {own[name]}" if name in own else line for name, line in zip(names, settings, strict=True)
    ]
    retained = [
        line for line in sound.splitlines() if line and not line.startswith(("#", "persistence_location"))
    ]
    plain = f"listener {(known := free_port())} 127.0.0.1"  # by which it is seen to have started
    with MosquittoServer(tmp_path / "mosquitto", "\n".join([*retained, plain, *asked]), port=known):
        made = binder(f"mqtts://127.0.0.1:{port}", with_password(broker))
        works(made.address, with_password(broker))
        assert made.warnings() == []
        eventually(made.stored, lambda count: count is not None)
        assert made.checkup().version.startswith("mosquitto version 2")
        failure(made.address, trusting(broker))
        made.close()


def test_a_password_in_a_file_may_change(broker: GuardedBroker, tmp_path: Path) -> None:
    (file := tmp_path / "password").write_text("not yet\n")
    made = binder(broker.password, trusting(broker, username=USER, password=Secret(f"file:{file}")))
    with pytest.raises(Rejected, match="Not authorized"):
        made.check()
    file.write_text(f"{PASSWORD}\n")
    made.check()


@pytest.mark.parametrize("value", ["not-it", None], ids=["wrong", "missing"])
def test_who_has_not_the_password(
    broker: GuardedBroker, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "not-it")
    login = trusting(broker) if value is None else with_password(broker)
    refused = failure(broker.password, login)
    assert isinstance(refused, Rejected)
    assert "refused the connection: Not authorized" in str(refused)
    assert "not-it" not in str(refused)


def test_a_password_that_is_nowhere(broker: GuardedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BROKER_PASSWORD")
    with pytest.raises(SecretUnavailable, match=r"secret '\$\{BROKER_PASSWORD\}' is not set"):
        binder(broker.password, with_password(broker)).check()


def test_the_right_certificate(broker: GuardedBroker) -> None:
    works(broker.certificate, showing(broker, broker.client))


def test_no_certificate(broker: GuardedBroker) -> None:
    refused = failure(broker.certificate, trusting(broker))
    assert isinstance(refused, Rejected)
    assert "it requires a client certificate (expected certificate_file and key_file)" in str(refused)


@pytest.mark.parametrize("name", ["stranger", "late"])
def test_a_certificate_that_is_not_taken(broker: GuardedBroker, name: str) -> None:
    certificate: Certificate = getattr(broker, name)
    refused = failure(broker.certificate, showing(broker, certificate))
    assert isinstance(refused, Rejected)
    assert f"it rejects our certificate '{certificate.file}'" in str(refused)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("expired", "its certificate has expired"),
        ("elsewhere", "its certificate is not for '127.0.0.1' (expected that name among its subject"),
    ],
)
def test_a_broker_whose_certificate_is_not_good(broker: GuardedBroker, field: str, words: str) -> None:
    unreachable = failure(getattr(broker, field), trusting(broker))
    assert isinstance(unreachable, Unreachable)
    assert f"no TLS connection: {words}" in str(unreachable)


@pytest.mark.parametrize("named", [True, False])
def test_a_broker_that_is_not_trusted(broker: GuardedBroker, named: bool) -> None:
    other = str(broker.authority.directory / "other.pem")
    said = str(failure(broker.password, Login(ca_file=other if named else None)))
    expected = f"one signed by {other!r}" if named else "a ca_file"
    assert "its certificate is not trusted: " in said
    assert said.endswith(f"(expected {expected})")


def test_a_broker_that_speaks_no_tls(broker: GuardedBroker) -> None:
    said = str(failure(broker.address.replace("tcp:", "mqtts:"), trusting(broker)))
    assert "speak TLS" in said or "UNEXPECTED_EOF" in said  # it hangs up, sooner or later


def test_a_broker_that_speaks_tls_only(broker: GuardedBroker) -> None:
    failure(broker.password.replace("mqtts:", "tcp:"), Login())


@pytest.mark.parametrize("field", ["ca_file", "certificate_file", "key_file"])
@pytest.mark.parametrize("content", [None, "rubbish"])
def test_a_file_that_cannot_be_used(
    broker: GuardedBroker, tmp_path: Path, field: str, content: str | None
) -> None:
    path = tmp_path / "x.pem"
    if content is not None:
        path.write_text(content)
    login = replace(showing(broker, broker.client), **{field: str(path)})
    said = str(failure(broker.certificate, login))
    assert repr(str(path)) in said
    assert "cannot be used: " in said
    assert "(expected " in said
