"""The messages that a broker has for each job, in queries and reports, over the doubles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from speck.coordinator import Services, build
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.settings import Settings
from speck.server.api.exposition import exposition
from speck.store import Store
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.benches.sessions import named
from testbed.doubles.kinds import double_kinds
from testbed.doubles.logs import with_logs
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

ENGINE, QUEUES, LOGS = "sc://e1:1", "tcp://b1:1883", "log://k:1"
JOB = make_job("logged", source_broker=LOGS)


@pytest.fixture(name="services")
def services_fixture(tmp_path: Path, world: World) -> Iterator[Services]:
    with Store(tmp_path / "store") as store:
        sites = Inventory({"north": one_site("north", ENGINE, QUEUES)})
        settings = Settings(roots=(write_code(tmp_path),), period=0, drain=0.2)
        services = build(store, with_logs(double_kinds(world), world), sites, settings)
        services.coordinator.sampler._keep_sampling = lambda: None  # type: ignore[method-assign]
        assert apply(services, make_job("queued", "t3", "t4"), JOB) == "succeeded"
        yield services
        services.coordinator.close()


def apply(services: Services, *jobs: Job) -> str:
    operation, _ = user.apply(services.coordinator, composition(*jobs))
    assert operation.wait(30)
    return str(operation.state)


def sample(services: Services) -> None:
    services.coordinator.sampler.sample()
    services.coordinator.sampler.await_answers()


def test_the_backlog_is_known_where_the_broker_counts_it(services: Services, world: World) -> None:
    world.broker(LOGS).backlog[named("logged")] = 1234
    world.broker(LOGS).ages[named("logged")] = 90.5
    world.broker(QUEUES).backlog[named("queued")] = 7
    sample(services)
    for found in (services.queries.jobs(), services.queries.rates()["jobs"]):
        assert {each["job_name"]: (each["behind"], each["behind_seconds"]) for each in found} == {
            "logged": (1234, 90.5),
            "queued": (None, None),
        }
    scraped = exposition(services).decode()
    for metric, value in (("speck_job_behind_messages", 1234.0), ("speck_job_behind_seconds", 90.5)):
        assert f'{metric}{{composition="traffic",job="logged",site="north"}} {value}' in scraped
        assert scraped.count(f"{metric}{{") == 1


def test_a_number_is_shown_also_where_the_age_is_not_known(services: Services, world: World) -> None:
    world.broker(LOGS).backlog[named("logged")] = 1234
    sample(services)
    found = services.queries.job("logged")
    assert (found["behind"], found["behind_seconds"]) == (1234, None)
    scraped = exposition(services).decode()
    assert (scraped.count("speck_job_behind_messages{"), scraped.count("speck_job_behind_seconds{")) == (1, 0)


def test_it_is_known_of_a_job_that_is_down_too(services: Services, world: World) -> None:
    world.broker(LOGS).backlog[named("logged")] = 5
    world.down(ENGINE)
    sample(services)
    (rates,) = [each for each in services.queries.rates()["jobs"] if each["job_name"] == "logged"]
    assert (rates["input_rate"], rates["behind"]) == (None, 5)
    assert services.queries.job("logged")["behind"] == 5


def test_a_count_that_is_old_is_none(services: Services, world: World) -> None:
    sampler = services.coordinator.sampler
    world.broker(LOGS).backlog[named("logged")] = 5
    sample(services)
    world.down(LOGS)
    began = sampler.now()
    for seconds, behind in ((80.0, 5), (100.0, None)):
        sampler.now = lambda later=began + seconds: later  # type: ignore[misc]
        sample(services)
        assert services.queries.job("logged")["behind"] == behind, seconds


def test_messages_that_were_deleted_before_a_job_read_them_are_a_finding(
    services: Services, world: World
) -> None:
    world.broker(LOGS).deleted[named("logged")] = 12_345
    (found,) = [each for each in services.doctor.diagnose() if each["finding"] == "messages lost"]
    assert found["where"] == "logged"
    assert found["message"].startswith(f"12,345 messages of topic 'in' at {LOGS} were deleted before")


def test_a_drain_that_is_late_names_what_is_left(services: Services, world: World) -> None:
    world.broker(LOGS).backlog[named("logged")] = 4211
    moved = replace(JOB, source_topic="elsewhere")
    operation, _ = user.apply(services.coordinator, composition(make_job("queued", "t3", "t4"), moved))
    assert operation.wait(30)
    error = operation.actions["logged"].error
    assert "the messages at 'in' of log://k:1 were not drained in 0.2 s (4,211 messages left)" in error
