"""A plan that a client has shown is the one carried out, also after the server has forgotten it."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from speck.client import RequestRefused
from speck.coordinator.retained_plans import PLANS
from testbed.servers.rest import RestServer, yaml_of

FIRST, SECOND = yaml_of("a t0 t1", "b t1 t2").encode(), yaml_of("a t0 t1", "b t1 t3").encode()


@pytest.fixture(name="planned")
def planned_fixture(rest: RestServer) -> dict[str, Any]:
    rest.client.apply(FIRST, "one", wait=30)
    return rest.client.plan(SECOND, "one")


def forget(rest: RestServer) -> None:
    for _ in range(PLANS):
        rest.client.plan(FIRST, "one")


def test_it_is_carried_out_by_its_id_and_once(rest: RestServer, planned: dict[str, Any]) -> None:
    url = f"{rest.url}/compositions?plan={planned['plan']}&wait=30&message=why"
    done = requests.post(url, timeout=60)
    assert (done.status_code, done.json()["revision"], done.json()["message"]) == (200, 2, "why")
    again = requests.post(url, timeout=60)
    assert again.status_code == 409
    assert f"was already accepted, by operation {done.json()['id']}" in again.json()["detail"]


def test_options_that_differ_from_the_plan_are_refused(rest: RestServer, planned: dict[str, Any]) -> None:
    url = f"{rest.url}/compositions?plan={planned['plan']}&give_up=true&place=all"
    refused = requests.post(url, timeout=60)
    assert refused.status_code == 422
    assert [each["field"] for each in refused.json()["faults"]] == ["give_up", "place"]


def test_a_job_that_ended_makes_it_stale(rest: RestServer, planned: dict[str, Any]) -> None:
    rest.world.crash("a")
    touched = rest.world.changes()
    with pytest.raises(
        RequestRefused, match="the plan is stale: job 'a' was running and is failed"
    ) as raised:
        rest.client.apply(SECOND, "one", plan=planned)
    assert (raised.value.status, rest.world.changes()) == (409, touched)


def test_a_forgotten_one_is_planned_again_and_carried_out(rest: RestServer, planned: dict[str, Any]) -> None:
    forget(rest)
    done = rest.client.apply(SECOND, "one", plan=planned, wait=30, base_revision=1)
    assert (done["state"], done["revision"]) == ("succeeded", 2)


def test_a_forgotten_one_that_would_be_another_is_refused(rest: RestServer, planned: dict[str, Any]) -> None:
    forget(rest)
    rest.world.crash("a")
    touched = rest.world.changes()
    with pytest.raises(RequestRefused, match=r"changed since it was shown: job 'a' differs \(plan again\)"):
        rest.client.apply(SECOND, "one", plan=planned)
    assert rest.world.changes() == touched
