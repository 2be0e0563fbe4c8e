"""A request that comes again with its key begins one operation, and is answered with it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import requests

from testbed.servers.rest import RestServer, rest_server, yaml_of
from tests.server.requesting import YAML

FIRST, SECOND = yaml_of("a t0 t1"), yaml_of("a t0 t1", "b t1 t2")


def ask(
    rest: RestServer, method: str, path: str, key: str = "k", text: str = "", **query: Any
) -> requests.Response:
    headers = YAML | ({"Idempotency-Key": key} if key else {})
    return requests.request(
        method, rest.url + path, params={"wait": 30, **query}, data=text, headers=headers, timeout=60
    )


def applied(rest: RestServer, *texts: str) -> None:
    for text in texts:
        rest.client.apply(text.encode(), "one", wait=30)


def test_an_apply_that_comes_again(rest: RestServer) -> None:
    once = ask(rest, "POST", "/compositions", text=FIRST, name="one")
    again = ask(rest, "POST", "/compositions", text=FIRST, name="one")
    assert (once.status_code, again.status_code) == (200, 200)
    assert again.json() == once.json()
    assert again.headers["Location"] == f"/operations/{once.json()['id']}"
    assert len(rest.client.operations()) == 1


def test_a_rollback_that_comes_again_goes_back_once(rest: RestServer) -> None:
    applied(rest, FIRST, SECOND)
    found = [ask(rest, "POST", "/compositions/one/rollback").json() for _ in range(2)]
    assert found[0] == found[1]
    assert found[0]["revision"] == rest.client.composition("one")["revision"] == 3


def test_a_deletion_that_comes_again_is_no_unknown_name(rest: RestServer) -> None:
    applied(rest, FIRST)
    once, again = (ask(rest, "DELETE", "/compositions/one") for _ in range(2))
    assert again.json() == once.json()
    assert ask(rest, "DELETE", "/compositions/one", key="another").status_code == 404


def test_a_job_that_comes_and_goes_again(rest: RestServer) -> None:
    job = FIRST.replace("jobs:\n- ", "").replace("\n  ", "\n")
    assert len({ask(rest, "POST", "/jobs", text=job).json()["id"] for _ in range(2)}) == 1
    assert len({ask(rest, "DELETE", "/jobs/a").json()["id"] for _ in range(2)}) == 1


def test_keys_are_those_of_a_path_and_a_method(rest: RestServer) -> None:
    applied(rest, FIRST)
    applied_id = ask(rest, "POST", "/compositions", text=SECOND, name="one").json()["id"]
    deleted = ask(rest, "DELETE", "/compositions/one").json()
    assert deleted["kind"] == "delete"
    assert deleted["id"] != applied_id


def test_requests_without_a_key_or_with_others_are_separate(rest: RestServer) -> None:
    for key in ("", "", "x", "y"):
        ask(rest, "POST", "/compositions", key=key, text=FIRST, name="one")
    assert len(rest.client.operations()) == 4


def test_a_refused_request_may_come_again(rest: RestServer) -> None:
    refused = ask(rest, "POST", "/compositions", text="jobs: 1", name="one")
    assert refused.status_code == 422
    assert ask(rest, "POST", "/compositions", text=FIRST, name="one").json()["state"] == "succeeded"


def test_a_plan_is_shown_again(rest: RestServer) -> None:
    """It begins no operation, so that its key says nothing."""
    plans = [
        ask(rest, "POST", "/compositions", text=FIRST, name="one", dry_run="true").json() for _ in range(2)
    ]
    assert [each["actions"] for each in plans] == [plans[0]["actions"]] * 2
    assert ask(rest, "POST", "/compositions", text=FIRST, name="one").json()["revision"] == 1


def test_the_same_request_from_many_at_once(rest: RestServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, rest, "POST", "/compositions", text=FIRST, name="one") for _ in range(8)]
        found = [each.result() for each in asked]
    assert {each.status_code for each in found} == {200}
    assert len({each.json()["id"] for each in found}) == 1
    assert len(rest.client.operations()) == 1


def test_a_key_is_known_after_a_restart(tmp_path: Path) -> None:
    with rest_server(tmp_path) as rest:
        once = ask(rest, "POST", "/compositions", text=FIRST, name="one").json()
    with rest_server(tmp_path, world=rest.world) as rest:
        again = ask(rest, "POST", "/compositions", text=FIRST, name="one")
        assert (again.status_code, again.json()["id"], again.json()["state"]) == (
            200,
            once["id"],
            "succeeded",
        )
        assert len(rest.client.operations()) == 1


def test_a_key_that_is_too_long_is_refused(rest: RestServer) -> None:
    refused = ask(rest, "POST", "/compositions", key="x" * 201, text=FIRST, name="one")
    assert refused.status_code == 422
    assert "Idempotency-Key has 201 characters (expected 200 or fewer)" in refused.text
    assert rest.client.operations() == []
