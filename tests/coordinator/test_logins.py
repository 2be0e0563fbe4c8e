"""A changed login of jobs to a broker: a plan restarts the jobs that run with the former one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from speck.coordinator import Services
from speck.core.inventory import Broker, Inventory, JobLogin, Login, Secret
from speck.core.job import Job
from speck.core.logins import login_mark
from speck.core.plan import Deployed, Keep, Plan, Update, make_plan
from speck.store import AttemptRecord
from speck.store.codec import decode_attempt, encode_attempt
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, composition, make_job
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

A, B = chain("a", "b")
OTHER = make_job("o", "x", "y", source_broker="tcp://b2:1883", sink_broker="tcp://b2:1883")
FIRST = JobLogin(username="jobs", password=Secret("${PASSWORD}"))
SECOND = JobLogin(username="others", password=Secret("${PASSWORD}"))


def inventory(login: JobLogin | None, address: str | None = None) -> Inventory:
    broker = Broker(broker_address="tcp://b1:1883", job_login=login, job_broker_address=address)
    return Inventory(brokers={"one": broker})


def apply(services: Services, *jobs: Job) -> Plan:
    operation, plan = user.apply(services.coordinator, composition(*jobs))
    assert operation.wait(30) and operation.state == "succeeded", operation.to_dict()
    return plan


def reasons(plan: Plan) -> dict[str, str]:
    return {each.job.job_name: each.reason for each in plan.actions if not isinstance(each, Keep)}


def test_a_changed_user_restarts_the_jobs_of_its_broker(begin: Callable[..., Services], world: World) -> None:
    apply(begin(inventory(FIRST)), A, B, OTHER)
    services = begin(inventory(SECOND))
    before = world.changes()
    plan = user.plan(services.coordinator, composition(A, B, OTHER))
    text = "the user of jobs at tcp://b1:1883 changed from 'jobs' to 'others'"
    assert reasons(plan) == {"a": text, "b": text}
    assert all(isinstance(each, Update) for each in plan.changes)
    assert world.changes() == before
    apply(services, A, B, OTHER)
    assert reasons(user.plan(services.coordinator, composition(A, B, OTHER))) == {}
    assert {each.attempt.job_name: each.attempt.number for each in services.coordinator.store.attempts()} == {
        "a": 2,
        "b": 2,
        "o": 1,
    }
    assert services.coordinator.store.heads()[0].revision == 1


def test_a_change_of_one_job_leaves_the_others_with_their_logins(begin: Callable[..., Services]) -> None:
    apply(begin(inventory(FIRST)), A)
    services = begin(inventory(SECOND))
    operation, plan = user.apply_job(services.coordinator, OTHER, "traffic")
    assert operation.wait(30) and reasons(plan) == {"o": "new in the composition"}


def test_the_reconciler_restarts_no_job_for_a_login(begin: Callable[..., Services], world: World) -> None:
    apply(begin(inventory(FIRST)), A)
    services = begin(inventory(SECOND))
    before = world.changes()
    services.coordinator.reconciler.round()
    assert world.changes() == before


@pytest.mark.parametrize(
    ("login", "address", "reason"),
    [
        (FIRST, None, None),
        (SECOND, None, "the user of jobs at tcp://b1:1883 changed from 'jobs' to 'others'"),
        (None, None, "the user of jobs at tcp://b1:1883 changed from 'jobs' to none"),
        (
            JobLogin(username="jobs", password=Secret("${OTHER}")),
            None,
            "the login of jobs at tcp://b1:1883 changed",
        ),
        (
            JobLogin(username="jobs", password=Secret("${PASSWORD}"), ca_file="/ca.pem"),
            None,
            "the login of jobs at tcp://b1:1883 changed",
        ),
        (FIRST, "tcp://mosquitto:1883", "the login of jobs at tcp://b1:1883 changed"),
    ],
    ids=["same", "user", "none", "password", "tls", "address"],
)
def test_each_part_of_a_login_counts(login: JobLogin | None, address: str | None, reason: str | None) -> None:
    now = login_mark(inventory(login, address).broker("tcp://b1:1883"))
    then = login_mark(inventory(FIRST).broker("tcp://b1:1883"))
    stored = {"a": Deployed(A, logins=(then, then))}
    [action] = make_plan("traffic", 1, {"a": A}, stored, logins={"tcp://b1:1883": now}).actions
    assert action == (Keep(A, "unchanged") if reason is None else Update(A, A, reason, ()))


def test_an_unknown_login_is_no_change() -> None:
    now = login_mark(inventory(FIRST).broker("tcp://b1:1883"))
    [action] = make_plan("t", 1, {"a": A}, {"a": Deployed(A)}, logins={"tcp://b1:1883": now}).actions
    assert action == Keep(A, "unchanged")


def test_a_mark_has_no_secret_and_no_path() -> None:
    broker = Broker(
        broker_address="tcp://b1:1883",
        broker_login=Login(username="speck", password=Secret("file:/run/secret")),
    )
    mark = login_mark(broker)
    assert mark.startswith("speck ") and len(mark) == len("speck ") + 8
    assert login_mark(Broker(broker_address="tcp://b1:1883")) == ""


@pytest.mark.parametrize("logins", [None, ("", ""), ("jobs 0123abcd", ""), ("a b 01234567", "c 89abcdef")])
def test_the_logins_of_an_attempt_are_stored(
    logins: tuple[str, str] | None, begin: Callable[..., Services]
) -> None:
    services = begin()
    apply(services, A)
    [record] = services.coordinator.store.attempts()
    assert record.logins == ("", "")
    changed = AttemptRecord(record.attempt, record.revision, record.phase, record.handle, logins)
    assert decode_attempt(f"a/{record.attempt.number}", encode_attempt(changed)) == changed
