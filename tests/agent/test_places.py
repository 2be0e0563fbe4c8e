"""The brokers elsewhere that a site's jobs use: what an agent learns of them, and keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from speck.agent.places import RECENT, SiteInventory
from speck.core.inventory import Broker, Inventory, JobLogin, Login, Secret
from speck.errors import BinderError, SecretUnavailable
from speck.link.codec import decode
from speck.link.places import PlaceOfJobs, places_of
from testbed.benches.examples import job, one_site

SITE = one_site("A", "http://a:8081", "tcp://a:1883", Login(username="own"))
PASSWORD = "p-a-s-s"


@pytest.fixture(name="sent")
def sent_fixture(monkeypatch: pytest.MonkeyPatch) -> list[PlaceOfJobs]:
    """The brokers of a job from the site to one elsewhere, as the coordinator sends them."""
    monkeypatch.setenv("SPECK_TEST_PASSWORD", PASSWORD)
    far = Broker(
        broker_address="tcp://far:1883",
        job_broker_address="tcp://inner:1883",
        broker_login=Login(username="coordinator", password=Secret("${NOT_SENT}")),
        job_login=JobLogin(username="jobs", password=Secret("${SPECK_TEST_PASSWORD}"), ca_file="/ca.pem"),
    )
    inventory = Inventory({"A": SITE}, {"far": far})
    found = places_of(job("clean", source_broker="tcp://a:1883", sink_broker="tcp://far:1883"), inventory)
    return decode(list[PlaceOfJobs], found)  # type: ignore[no-any-return]


def test_a_job_runs_with_the_login_that_was_sent(sent: list[PlaceOfJobs], tmp_path: Path) -> None:
    inventory = SiteInventory(SITE, tmp_path)
    inventory.learn(sent)
    for each in (inventory, SiteInventory(SITE, tmp_path)):  # and after a restart
        login = each.job_login("tcp://far:1883")
        assert (login.username, login.ca_file) == ("jobs", "/ca.pem")
        assert login.password is not None
        assert login.password.reveal() == PASSWORD
        assert each.job_broker_address("tcp://far:1883") == "tcp://inner:1883"
        assert each.broker_login("tcp://far:1883").username == "jobs"  # and not the coordinator's
        assert each.broker_login("tcp://a:1883").username == "own"


def test_a_broker_elsewhere_is_reached_as_by_the_jobs(sent: list[PlaceOfJobs], tmp_path: Path) -> None:
    inventory = SiteInventory(replace(SITE, job_broker_address="tcp://127.0.0.1:1883"), tmp_path)
    assert inventory.address_here("tcp://far:1883") == "tcp://far:1883"
    inventory.learn(sent)
    assert inventory.address_here("tcp://far:1883") == "tcp://inner:1883"
    assert inventory.broker_login("tcp://inner:1883").username == "jobs"
    assert inventory.address_here("tcp://a:1883") == "tcp://a:1883"


def test_a_password_is_in_a_file_of_its_own(sent: list[PlaceOfJobs], tmp_path: Path) -> None:
    SiteInventory(SITE, tmp_path).learn(sent)
    assert PASSWORD not in (tmp_path / "brokers.json").read_text()
    (kept,) = (tmp_path / "secrets").iterdir()
    assert kept.read_text() == PASSWORD
    assert oct(kept.stat().st_mode)[-3:] == "600"
    assert PASSWORD not in repr(sent)


def test_a_changed_login_replaces_the_former(sent: list[PlaceOfJobs], tmp_path: Path) -> None:
    inventory = SiteInventory(SITE, tmp_path)
    inventory.learn(sent)
    inventory.learn([replace(each, username="others") for each in sent])
    assert inventory.job_login("tcp://far:1883").username == "others"
    assert inventory.job_login("tcp://a:1883").username == "own"  # of the site's own file


def test_a_damaged_file_is_learned_again(
    sent: list[PlaceOfJobs], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "brokers.json").write_text("{")
    inventory = SiteInventory(SITE, tmp_path)
    assert "brokers.json is left alone" in caplog.text
    inventory.learn(sent)
    assert SiteInventory(SITE, tmp_path).job_login("tcp://far:1883").username == "jobs"


def test_a_secret_that_is_not_set_is_named() -> None:
    far = Broker(broker_address="tcp://far:1883", job_login=JobLogin(password=Secret("${SPECK_NOWHERE}")))
    with pytest.raises(SecretUnavailable, match="SPECK_NOWHERE"):
        places_of(job("clean", source_broker="tcp://far:1883"), Inventory({"A": SITE}, {"far": far}))


def test_a_login_that_could_not_be_stored_is_stored_at_the_next_request(
    sent: list[PlaceOfJobs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be lost at the next start of the agent."""
    inventory = SiteInventory(SITE, tmp_path)

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("speck.agent.places.replace_file", full)
        with pytest.raises(BinderError, match="cannot store the brokers of a job: No space left"):
            inventory.learn(sent)
    inventory.learn(sent)
    assert SiteInventory(SITE, tmp_path).job_login("tcp://far:1883").username == "jobs"


def test_a_login_that_no_job_uses_is_forgotten(sent: list[PlaceOfJobs], tmp_path: Path) -> None:
    now = [0.0]
    inventory = SiteInventory(SITE, tmp_path, lambda: now[0])
    (tmp_path / "secrets" / ".torn-by-a-power-cut").write_text(PASSWORD)
    inventory.learn(sent)
    inventory.learn([replace(each, broker_address="tcp://other:1883", password="another") for each in sent])
    inventory.retain(())  # a job that was checked may be submitted now
    assert len(list((tmp_path / "secrets").iterdir())) == 2
    now[0] = RECENT + 1
    inventory.retain({"tcp://far:1883"})
    for each in (inventory, SiteInventory(SITE, tmp_path)):
        assert each.job_login("tcp://far:1883").username == "jobs"
        assert each.job_login("tcp://other:1883").username is None
    (kept,) = (tmp_path / "secrets").iterdir()
    assert kept.read_text() == PASSWORD
    SiteInventory(SITE, tmp_path).retain(())
    assert list((tmp_path / "secrets").iterdir()) == []


def test_the_passwords_of_a_file_that_cannot_be_read_are_kept(
    sent: list[PlaceOfJobs], tmp_path: Path
) -> None:
    """It may be of a later version, which is put back."""
    SiteInventory(SITE, tmp_path).learn(sent)
    (tmp_path / "brokers.json").write_text("{")
    SiteInventory(SITE, tmp_path).retain(())
    assert len(list((tmp_path / "secrets").iterdir())) == 1
