"""The REST interface, through the real application and WSGI server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import requests

from speck.core.inventory import Inventory, Uplink
from testbed.benches.examples import one_site
from testbed.servers.rest import SOLO, RestServer, rest_server, yaml_of
from tests.server.requesting import YAML

TWO = yaml_of("a t0 t1", "b t1 t2")


def post(rest: RestServer, text: str, **query: Any) -> requests.Response:
    return requests.post(
        f"{rest.url}/compositions", data=text, params={"name": "demo", **query}, headers=YAML, timeout=30
    )


def get(rest: RestServer, path: str) -> Any:
    answer = requests.get(rest.url + path, timeout=30)
    assert answer.ok, answer.text
    return answer.json()


def test_dry_run_answers_the_plan_and_changes_nothing(rest: RestServer) -> None:
    answer = post(rest, TWO, dry_run="true")
    assert answer.status_code == 200
    plan = answer.json()
    assert plan["counts"] == {"start": 2, "stop": 0, "update": 0, "move": 0, "keep": 0}
    assert [(each["job"], each["kind"], each["reason"]) for each in plan["actions"]] == [
        ("a", "start", "new in the composition"),
        ("b", "start", "new in the composition"),
    ]
    assert [each["message"] for each in plan["warnings"]] != []
    assert get(rest, "/compositions") == []
    assert rest.world.changes() == []


def test_a_plan_has_its_steps_on_request_alone(rest: RestServer) -> None:
    assert "steps" not in post(rest, TWO, dry_run="true").json()
    plan = post(rest, TWO, dry_run="true", steps="true").json()
    assert [(each["kind"], each["subject"], each["needs"]) for each in plan["steps"]] == [
        ("broker", "tcp://b1:1883", []),
        ("prepare", "a", [1]),
        ("prepare", "b", [1]),
        ("act", "a", [2, 3]),
        ("act", "b", [3]),
    ]
    assert post(rest, TWO, wait=30).json()["state"] == "succeeded"
    assert post(rest, TWO, dry_run="true", steps="true").json()["steps"] == []
    removal = {"dry_run": "true", "steps": "true", "leave_behind": "tcp://b1:1883"}
    answer = requests.delete(f"{rest.url}/compositions/demo", params=removal, timeout=30).json()
    assert [each["kind"] for each in answer["steps"]] == ["prepare", "prepare", "act", "act"]
    answer = requests.delete(f"{rest.url}/jobs/a", params={"dry_run": "true", "steps": "true"}, timeout=30)
    assert [each["kind"] for each in answer.json()["steps"]] == ["broker", "prepare", "drain", "act"]


def test_apply_waits_when_asked_and_shows_each_action(rest: RestServer) -> None:
    answer = post(rest, TWO, wait=30, message="first")
    assert answer.status_code == 200
    operation = answer.json()
    assert (operation["state"], operation["engine_calls"]) == ("succeeded", {"check": 2, "submit": 2})
    assert {each["job"]: each["state"] for each in operation["actions"]} == {"a": "done", "b": "done"}
    assert answer.headers["Location"] == f"/operations/{operation['id']}"
    assert get(rest, f"/operations/{operation['id']}") == operation
    assert [(each["number"], each["message"]) for each in get(rest, "/compositions/demo/revisions")] == [
        (1, "first")
    ]


def test_apply_answers_at_once_and_works_on_in_the_background(rest: RestServer) -> None:
    hold = rest.world.hold("submit")
    answer = post(rest, TWO)
    assert answer.status_code == 202
    assert answer.json()["state"] == "running"
    busy = post(rest, TWO)
    assert (busy.status_code, busy.headers["Content-Type"]) == (409, "application/problem+json")
    hold.release()
    assert rest.coordinator.operations.live(answer.json()["id"]).wait(30)  # type: ignore[union-attr]


def test_events_of_an_operation_end_with_its_end(rest: RestServer) -> None:
    operation = post(rest, TWO).json()["id"]
    with requests.get(f"{rest.url}/operations/{operation}/events", stream=True, timeout=30) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        states = [json.loads(line[6:])["state"] for line in stream.iter_lines() if line.startswith(b"data")]
    assert states[-1] == "succeeded"


def test_jobs_tell_wanted_and_real(rest: RestServer) -> None:
    post(rest, TWO, wait=30)
    job = get(rest, "/jobs/a")
    assert (job["wanted"], job["state"], job["up_to_date"], job["attempt"]) == ("running", "running", True, 1)
    assert job["job"]["source_topic"] == "t0"
    assert job["metrics"]["input_rows"] == 0
    rest.world.crash("a", "ValueError in work.py:2")
    job = get(rest, "/jobs/a")
    assert (job["wanted"], job["state"], job["message"]) == ("running", "failed", "ValueError in work.py:2")
    assert [each["job_name"] for each in get(rest, "/jobs")] == ["a", "b"]
    assert get(rest, "/compositions/demo")["jobs"][0]["state"] == "failed"


def test_a_deletion_is_planned_and_refused_when_somebody_was_faster(rest: RestServer) -> None:
    post(rest, TWO, wait=30)
    planned = requests.delete(f"{rest.url}/compositions/demo?dry_run=true", timeout=30).json()
    assert (planned["base_revision"], planned["counts"]["stop"]) == (1, 2)
    assert [each["job_name"] for each in planned["jobs"]] == ["a", "b"]
    post(rest, yaml_of("a t0 t1"), wait=30)
    stale = requests.delete(f"{rest.url}/compositions/demo?base_revision=1&wait=30", timeout=60)
    assert (stale.status_code, "the last revision is 2" in stale.json()["detail"]) == (409, True)
    assert list(rest.world.where()) == ["a"]
    ended = requests.delete(f"{rest.url}/compositions/demo?base_revision=2&wait=30", timeout=60)
    assert (ended.status_code, ended.json()["state"]) == (200, "succeeded")
    assert get(rest, "/compositions") == []


def test_operations_are_told_from_before_the_server_was_started(tmp_path: Path) -> None:
    with rest_server(tmp_path) as rest:
        for number in range(3):
            post(rest, yaml_of(f"a t{number} t9"), wait=30, message=f"the {number}.")
        requests.post(
            f"{rest.url}/compositions?name=other&wait=30", yaml_of("b x y"), headers=YAML, timeout=60
        )
    with rest_server(tmp_path) as rest:
        hold = rest.world.hold("submit")
        begun = post(rest, yaml_of("a t3 t9", "c t4 t5")).json()
        assert hold.reached.wait(60)
        reported = get(rest, "/operations")
        hold.release()
        assert [each["composition"] for each in reported] == ["demo", "other", "demo", "demo", "demo"]
        assert (reported[0]["id"], reported[0]["state"]) == (begun["id"], "running")
        assert reported[0]["counts"]["running"] >= 1
        assert [each["message"] for each in reported[2:]] == ["the 2.", "the 1.", "the 0."]
        assert (reported[2]["counts"], "actions" in reported[2]) == ({"done": 1}, False)
        page = get(rest, f"/operations?composition=demo&limit=2&before={reported[2]['id']}")
        assert page == reported[3:]
        assert get(rest, "/operations?limit=1") != []
        assert get(rest, "/operations?composition=nothing") == []
        assert requests.get(f"{rest.url}/operations?limit=0", timeout=30).status_code == 422


def test_one_job_is_deployed_and_deleted(rest: RestServer) -> None:
    answer = requests.post(f"{rest.url}/jobs?wait=30", json=SOLO, timeout=60)
    assert (answer.status_code, answer.json()["state"]) == (200, "succeeded")
    assert list(rest.world.where()) == ["solo"]
    answer = requests.delete(f"{rest.url}/jobs/solo?wait=30", timeout=60)
    assert (answer.status_code, answer.json()["state"]) == (200, "succeeded")
    assert rest.world.where() == {}
    wrong = requests.post(f"{rest.url}/jobs", json=SOLO | {"sink_topic": "y/#"}, timeout=60)
    assert wrong.status_code == 422
    assert [each["field"] for each in wrong.json()["faults"]] == ["sink_topic"]


def test_every_fault_is_told_at_once_and_nothing_is_touched(rest: RestServer) -> None:
    answer = post(rest, yaml_of("a t0 t1 paralelism: 2; upgrade: maybe", "b t1 t2/#"))
    assert (answer.status_code, answer.headers["Content-Type"]) == (422, "application/problem+json")
    faults = {(each["job"], each["field"]): each for each in answer.json()["faults"]}
    assert set(faults) == {("a", "paralelism"), ("a", "upgrade"), ("b", "sink_topic")}
    assert "did you mean 'parallelism'" in faults["a", "paralelism"]["message"]
    assert faults["a", "paralelism"]["line"] == 10
    assert rest.world.calls == []
    assert get(rest, "/compositions") == []


ERRORS: list[tuple[str, str, int]] = [
    ("GET", "/jobs/none", 404),
    ("DELETE", "/jobs/none", 404),
    ("GET", "/compositions/none", 404),
    ("DELETE", "/compositions/none", 404),
    ("GET", "/compositions/none/revisions", 404),
    ("GET", "/compositions/none/revisions/1", 404),
    ("GET", "/compositions/none/revisions/0x1", 404),
    ("GET", "/compositions/none/revisions/99999999999999999999999", 404),
    ("GET", "/compositions/none/diff", 404),
    ("GET", "/compositions/none/diff?before=-1", 422),
    ("POST", "/compositions/none/rollback", 404),
    ("POST", "/compositions/none/rollback?revision=0", 422),
    ("POST", "/compositions/none/rollback?author=a%1b", 422),
    ("GET", "/events?since=nan", 422),
    ("GET", "/operations/none", 404),
    ("GET", "/operations/none/events", 404),
    ("POST", "/adoptions?name=none", 404),
    ("POST", "/adoptions?job=a&name=.", 422),
    ("DELETE", "/left-behind", 422),
    ("DELETE", "/left-behind?place=nowhere", 422),
    ("GET", "/nowhere", 404),
    ("PUT", "/jobs", 405),
    ("GET", "/events?limit=0", 422),
    ("POST", "/compositions?wait=soon", 422),
]


def test_errors_are_problems(rest: RestServer) -> None:
    for method, path, status in ERRORS:
        answer = requests.request(method, rest.url + path, timeout=30)
        assert answer.status_code == status, (method, path)
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["status"] == status
        assert answer.json()["detail"]


def test_stale_base_revision_names_the_last_one(rest: RestServer) -> None:
    post(rest, TWO, wait=30)
    answer = post(rest, TWO, base_revision=0)
    assert answer.status_code == 409
    assert "the last revision is 1" in answer.json()["detail"]


def test_other_content_types_are_refused(rest: RestServer) -> None:
    answer = requests.post(
        f"{rest.url}/compositions", data="x", headers={"Content-Type": "image/png"}, timeout=30
    )
    assert answer.status_code == 415
    assert "'image/png' is not supported" in answer.json()["detail"]


def test_openapi_has_what_generators_of_clients_need(rest: RestServer) -> None:
    """The recommended rules of Spectral that a new route may break (all of them: make spectral)."""
    document = get(rest, "/openapi.json")
    assert document["servers"][0]["url"] == "/"
    assert document["info"]["description"] and document["info"]["contact"]
    operations = [
        operation
        for item in document["paths"].values()
        for method, operation in item.items()
        if method in ("get", "post", "put", "delete")
    ]
    names = [each["operationId"] for each in operations]
    assert len(set(names)) == len(names) and all(map(str.isidentifier, names))
    assert [each["operationId"] for each in operations if not each.get("description")] == []
    text = json.dumps(document)
    unused = [name for name in document["components"]["schemas"] if f'schemas/{name}"' not in text]
    assert unused == []


ROUTES = {
    ("POST", "/jobs"),
    ("GET", "/jobs"),
    ("GET", "/jobs/{name}"),
    ("DELETE", "/jobs/{name}"),
    ("GET", "/jobs/{name}/logs"),
    ("GET", "/jobs/{name}/curves"),
    ("GET", "/jobs/{name}/engine-plan"),
    ("POST", "/compositions"),
    ("GET", "/compositions"),
    ("GET", "/compositions/{name}"),
    ("DELETE", "/compositions/{name}"),
    ("GET", "/compositions/{name}/revisions"),
    ("GET", "/compositions/{name}/revisions/{number}"),
    ("GET", "/compositions/{name}/diff"),
    ("GET", "/compositions/{name}/code-diff"),
    ("GET", "/artifacts/{sha256}"),
    ("POST", "/compositions/{name}/rollback"),
    ("POST", "/adoptions"),
    ("POST", "/placements"),
    ("GET", "/placements"),
    ("GET", "/placements/{identifier}"),
    ("POST", "/placements/{identifier}/accept"),
    ("GET", "/policies"),
    ("GET", "/splits"),
    ("GET", "/splits/{name}"),
    ("GET", "/splits/{name}/windows"),
    ("POST", "/jobs/{name}/pin"),
    ("GET", "/adapt"),
    ("GET", "/adapt/{name}"),
    ("POST", "/adapt/{name}"),
    ("GET", "/operations"),
    ("GET", "/operations/{identifier}"),
    ("GET", "/operations/{identifier}/events"),
    ("GET", "/store/check"),
    ("GET", "/store/backup"),
    ("GET", "/rates"),
    ("GET", "/profile"),
    ("POST", "/profile"),
    ("GET", "/links"),
    ("GET", "/live"),
    ("GET", "/events"),
    ("GET", "/sites"),
    ("GET", "/sites/check"),
    ("POST", "/sites/check"),
    ("GET", "/sites/upgrade"),
    ("POST", "/sites/upgrade"),
    ("DELETE", "/sites/{name}"),
    ("POST", "/sites/{name}/agent"),
    ("DELETE", "/sites/{name}/agent"),
    ("GET", "/sites/{name}/workers"),
    ("GET", "/workers"),
    ("GET", "/doctor"),
    ("GET", "/healthz"),
    ("GET", "/deleted-compositions"),
    ("GET", "/left-behind"),
    ("DELETE", "/left-behind"),
    ("GET", "/whoami"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
}


def test_openapi_describes_every_route(rest: RestServer) -> None:
    document = get(rest, "/openapi.json")
    assert {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if method in ("get", "post", "delete")
    } == ROUTES


def test_openapi_describes_the_fields_of_a_job(rest: RestServer) -> None:
    document = get(rest, "/openapi.json")
    schema = document["components"]["schemas"]["Job"]
    assert schema["required"] == ["job_name", "sink_topic"]
    needed = ["entry_class", "job_path", "source_topic"]  # a query gives them
    assert schema["anyOf"] == [{"required": ["sql"]}, {"required": needed}]
    job = schema["properties"]
    assert {"job_name", "spe_address", "upgrade", "labels"} <= set(job)
    assert job["upgrade"]["enum"] == ["stateful", "stateless", None]  # null: as if left out


def test_sites_tell_what_can_be_reached(tmp_path: Path) -> None:
    sites = {name: one_site(name, f"sc://{name}:1", f"tcp://{name}:1883", slots=4) for name in ("A", "B")}
    sites["A"] = replace(sites["A"], uplink=Uplink(bandwidth=10e6))
    with rest_server(tmp_path, Inventory(sites)) as rest:
        rest.world.down("sc://B:1")
        first, second = get(rest, "/sites")
    (engine,), (unreached,) = first["engines"], second["engines"]
    assert (engine["reached"], engine["capacity"]["slots"]) == (True, 4)
    assert (unreached["reached"], second["broker"]["reached"]) == (False, True)
    assert "sc://B:1 cannot be reached" in unreached["error"]
    unknown = dict.fromkeys(("bandwidth", "downlink", "latency"))
    assert (first["uplink"], second["uplink"]) == (unknown | {"bandwidth": 10e6}, unknown)


def test_token_is_demanded_where_one_is_set(tmp_path: Path) -> None:
    with rest_server(tmp_path, token="right") as rest:
        assert requests.get(f"{rest.url}/jobs", timeout=30).status_code == 401
        for given, status in (("wrong", 401), ("right", 200)):
            headers = {"Authorization": f"Bearer {given}"}
            assert requests.get(f"{rest.url}/jobs", headers=headers, timeout=30).status_code == status
        assert requests.get(f"{rest.url}/healthz", timeout=30).status_code == 200
