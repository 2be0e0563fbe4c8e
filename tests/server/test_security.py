"""The server's own face: who is let in, what a browser can not be used for, what is too much.

Real HTTP against a real ``speck serve``, over engines and brokers in memory.
"""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import requests

from speck import cli
from speck.cli.demo.programs import Program
from speck.errors import InvalidInput, StoreFull
from speck.server.api.engine_plan_routes import operator_name
from speck.server.middleware.origin import HEADERS, foreign, is_ours
from speck.server.middleware.rate_limit import Throttle, client_of
from speck.server.process import _names
from speck.server.tokens import Owner, Role, TokenFile, add_owner, digest, mint, remove_owner
from testbed.servers.rest import SOLO, rest_server, yaml_of
from testbed.servers.served_process import Served, served
from tests.server.requesting import JSON, YAML, problem_of

ONE = yaml_of("a t0 t1")


@dataclass(frozen=True)
class Door:
    """A server that asks for tokens, and three of them: one that writes, one that reads, one of nobody."""

    served: Served
    anna: str
    reader: str
    stranger: str
    tokens: Path

    def ask(self, method: str, path: str, token: str = "", **kwargs: Any) -> requests.Response:
        """The answer; of one that has no end, its beginning."""
        kwargs.setdefault("stream", path == "/live")
        headers = kwargs.pop("headers", {}) | ({"Authorization": f"Bearer {token}"} if token else {})
        return requests.request(method, self.served.url + path, headers=headers, timeout=120, **kwargs)


@pytest.fixture(name="door", scope="module")
def door_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    directory = tmp_path_factory.mktemp("door")
    anna, reader, stranger = mint(), mint(), mint()
    tokens = directory / "tokens"
    add_owner(tokens, Owner("anna", Role.WRITE, digest(anna.encode())))
    add_owner(tokens, Owner("screen", Role.READ, digest(reader.encode())))
    with served(directory, "--tokens", tokens, "--allow-host", "speck.example") as server:
        deadline = time.monotonic() + 120
        while not requests.get(f"{server.url}/readyz", timeout=120).ok:  # it has not looked around yet
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield Door(server, anna, reader, stranger, tokens)


def operations_of(door: Door) -> list[tuple[str, str]]:
    """Each method and path of the OpenAPI document, with something in place of its parameters."""
    document = door.ask("GET", "/openapi.json", door.anna).json()
    return [
        (method.upper(), re.sub(r"{[^}]*}", "1", path))
        for path, item in document["paths"].items()
        for method in item.keys() & {"get", "post", "delete", "put", "patch"}
    ]


# --- tokens and roles


def test_without_a_token_everything_is_closed_but_a_sign_of_life(door: Door) -> None:
    operations = [*operations_of(door), ("GET", "/openapi.json"), ("GET", "/nothing"), ("HEAD", "/jobs")]
    assert len(operations) > 20
    for method, path in operations:
        answer = door.ask(method, path)
        if path in ("/healthz", "/readyz"):
            assert answer.json() == {"status": "ok"}
        else:
            assert answer.status_code == 401, (method, path)
            assert answer.headers["WWW-Authenticate"] == 'Bearer realm="SpecK"'
    assert "SPECK_TOKEN" in problem_of(door.ask("GET", "/jobs"), 401)["detail"]


@pytest.mark.parametrize(
    "header",
    [
        "Bearer {stranger}",
        "bearer {anna}x",
        "Basic {anna}",
        "{anna}",
        "Bearer",
        "Bearer \xe9\xff",
        "x" * 5000,
    ],
)
def test_a_wrong_token_is_refused_and_not_repeated(door: Door, header: str) -> None:
    given = header.format(anna=door.anna, stranger=door.stranger)
    answer = door.ask("GET", "/jobs", headers={"Authorization": given.encode("latin-1")})
    problem_of(answer, 401)
    assert ("invalid_token" in answer.headers["WWW-Authenticate"]) == given.lower().startswith("bearer ")
    assert door.anna not in answer.text
    assert door.stranger not in answer.text


def test_a_stranger_who_sends_much_is_told_so(door: Door) -> None:
    much = b"x" * 3_000_000
    for token, status in ((door.anna, 422), (door.stranger, 401), ("", 401)):
        for data in (much, iter([much])):  # in one, and in chunks
            problem_of(door.ask("POST", "/compositions", token, data=data, headers=YAML), status)


def test_the_scheme_s_case_does_not_matter(door: Door) -> None:
    assert door.ask("GET", "/jobs", headers={"Authorization": f"bEARER  {door.anna}"}).ok


def test_each_learns_who_it_is_and_what_it_may(door: Door) -> None:
    assert door.ask("GET", "/whoami", door.anna).json() == {"name": "anna", "role": "write"}
    assert door.ask("GET", "/whoami", door.reader).json() == {"name": "screen", "role": "read"}


def test_who_may_read_reads_and_changes_nothing(door: Door) -> None:
    seen = set()
    for method, path in operations_of(door):
        answer = door.ask(method, path, door.reader)
        allowed = method == "GET" and path != "/store/backup" and not path.endswith("/code-diff")
        assert (answer.status_code not in (401, 403)) == allowed, (method, path, answer.text)
        if not allowed:
            assert 'error="insufficient_scope", scope="write"' in answer.headers["WWW-Authenticate"]
            assert "'screen' can only read" in problem_of(answer, 403)["detail"]
        seen.add((method, allowed))
    assert seen == {("GET", True), ("GET", False), ("POST", False), ("PUT", False), ("DELETE", False)}
    assert door.ask("GET", "/compositions", door.reader).json() == []


def test_an_action_s_author_is_whose_token_it_was(door: Door) -> None:
    path = "/compositions?name=hers&wait=60&author=mallory"
    applied = door.ask("POST", path, door.anna, data=ONE, headers=YAML).json()
    assert (applied["state"], applied["author"]) == ("succeeded", "anna")
    alone = json.dumps(SOLO | {"job_name": "b"})
    door.ask("POST", "/jobs?composition=hers&wait=60&author=mallory", door.anna, data=alone, headers=JSON)
    rolled = door.ask("POST", "/compositions/hers/rollback?wait=60&author=mallory", door.anna).json()
    assert rolled["author"] == "anna"
    revisions = door.ask("GET", "/compositions/hers/revisions", door.reader).json()
    assert [each["author"] for each in revisions] == ["anna"] * 3
    door.ask("DELETE", "/jobs/a?wait=60&author=mallory", door.anna)
    door.ask("DELETE", "/compositions/hers?wait=60&author=mallory", door.anna)
    events = door.ask("GET", "/events?composition=hers", door.reader).json()
    assert {each["author"] for each in events} == {"anna"}
    assert {"accepted", "succeeded"} <= {each["kind"] for each in events}


def test_expressions_of_code_in_the_plan_of_an_engine_are_for_the_role_write(door: Door) -> None:
    path = "/compositions?name=planned&wait=60"
    door.ask("POST", path, door.anna, data=ONE, headers=YAML)
    found = [door.ask("GET", "/jobs/a/engine-plan", token).json() for token in (door.anna, door.reader)]
    assert [[node["description"] for node in each["nodes"]] for each in found] == [
        ["", "clean (value > 3)", ""],
        ["", "", ""],
    ]
    assert [node["name"] for node in found[0]["nodes"]] == [node["name"] for node in found[1]["nodes"]]
    door.ask("DELETE", "/compositions/planned?wait=60", door.anna)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Calc(select=[a, b], where=[(a > 3)])[7]", "Calc"),
        ("Calc[7]", "Calc"),
        ("filter: clean", "filter: clean"),
        ("Source: source", "Source: source"),
    ],
)
def test_the_name_of_an_operator_is_shown_without_expressions(name: str, shown: str) -> None:
    assert operator_name(name) == shown


def test_no_token_is_kept_anywhere(door: Door) -> None:
    door.ask("GET", "/jobs", door.stranger)
    files = [each for each in door.served.directory.rglob("*") if each.is_file()]
    assert door.tokens in files
    assert any("store" in each.parts for each in files)
    assert (door.served.directory / "store").stat().st_mode & 0o777 == 0o700  # others see no code either
    for file in files:
        for token in (door.anna, door.reader, door.stranger):
            assert token.encode() not in file.read_bytes(), file


def test_who_is_struck_off_is_out_at_once_and_who_is_added_is_in(door: Door) -> None:
    token = mint()
    add_owner(door.tokens, Owner("ben", Role.READ, digest(token.encode())))
    assert door.ask("GET", "/jobs", token).ok
    slow = door.ask("POST", "/compositions?name=bens", door.anna, data=yaml_of("slow-b t0 t1"), headers=YAML)
    progress = f"/operations/{slow.json()['id']}/events"
    with (
        door.ask("GET", "/live", token) as live,
        door.ask("GET", progress, token, stream=True) as followed,
    ):
        reported = [each.iter_lines(chunk_size=1) for each in (live, followed)]
        assert all(map(next, reported))
        remove_owner(door.tokens, "ben")
        assert door.ask("GET", "/jobs", token).status_code == 401
        door.served.go()
        # A stream would go on with its next beat (10 s) and the end of the operation.
        assert not [line for line in reported[1] if b"succeeded" in line]
        beats = 0  # of before, on a busy machine
        for line in reported[0]:
            beats += b'"items":[]' in line
            assert beats < 4, "it goes on"
    assert b"succeeded" in door.ask("GET", progress, door.anna).content  # it has ended
    assert door.ask("DELETE", "/compositions/bens?wait=60", door.anna).json()["state"] == "succeeded"
    assert door.ask("GET", "/jobs", door.anna).ok


def test_a_file_of_tokens_that_breaks_locks_nobody_out_and_lets_nobody_in(tmp_path: Path) -> None:
    path, token = tmp_path / "tokens", mint()
    add_owner(path, Owner("anna", Role.WRITE, digest(token.encode())))
    tokens = TokenFile(path)
    path.write_text("anna everything\n")
    found = tokens.owner(token.encode())
    assert found is not None
    assert found.name == "anna"
    path.unlink()
    assert tokens.owner(token.encode()) is not None
    assert tokens.owner(mint().encode()) is None


def test_a_token_is_refused_once_the_file_that_lacks_it_can_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, removed, kept = tmp_path / "tokens", mint(), mint()
    for name, token in (("anna", removed), ("ben", kept)):
        add_owner(path, Owner(name, Role.WRITE, digest(token.encode())))
    tokens = TokenFile(path)
    path.write_text(f"ben write {digest(kept.encode())}\n")
    path.chmod(0o666)
    for _ in range(3):
        assert tokens.owner(removed.encode()) is not None
    assert [each.message for each in caplog.records if "chmod 600" in each.message] == [
        f"the tokens stay as they were: {path} can be written to by others (expected its owner alone: "
        f"chmod 600 {path})"
    ]
    path.chmod(0o600)  # which changes neither its content nor its time
    assert tokens.owner(removed.encode()) is None
    assert tokens.owner(kept.encode()) is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no tokens"),
        ("# anna write abc\n\n", "has no tokens"),
        ("anna write {token}", "line 1: no SHA-256"),
        ("anna {token}", "line 1 is not understood"),
        ("\nanna admin {sha256}", "line 2 is not understood"),
        ("-x write {sha256}", "line 1 is not understood"),
        ("speck read {sha256}", "line 1: name 'speck' is reserved"),
        ("anna read {sha256}\nanna write {sha256}", "line 2: name 'anna' is given twice"),
        ("anna write {sha256}\n\u00e9", "expected ASCII"),
    ],
)
def test_a_wrong_file_of_tokens_is_told_and_not_repeated(tmp_path: Path, text: str, said: str) -> None:
    token = mint()
    path = tmp_path / "tokens"
    path.write_text(text.format(token=token, sha256=digest(token.encode())))
    path.chmod(0o600)
    with pytest.raises(InvalidInput, match=said) as raised:
        TokenFile(path)
    assert token not in str(raised.value)


@pytest.mark.parametrize("name", ["speck", "placement"])
def test_a_token_has_the_name_of_no_loop_of_the_server(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="not 'speck' or 'placement'"):
        add_owner(tmp_path / "tokens", Owner(name, Role.WRITE, digest(mint().encode())))
    assert not (tmp_path / "tokens").exists()


# --- what serve refuses to begin with


def refused(directory: Path, *options: object, **variables: str) -> str:
    """The reason why ``speck serve`` does not begin, in one line."""
    said = speck("serve", "--port", 0, "--data-dir", directory / "store", *options, **variables)
    assert (said.returncode, said.stdout) == (1, "")
    return said.stderr


def test_what_no_server_begins_with(tmp_path: Path) -> None:
    secret = "open-sesame-open-sesame"
    public = tmp_path / "public"
    public.write_text(f"{secret}\n")
    public.chmod(0o644)
    two = tmp_path / "two"
    two.write_text(f"{secret}\n{secret}\n")
    two.chmod(0o600)
    cases = {
        "is open to others: set SPECK_TOKEN first": refused(tmp_path, "--host", "192.0.2.1"),
        "the token is too short": refused(tmp_path, SPECK_TOKEN="short"),
        "can be read by others": refused(tmp_path, "--token-file", public),
        "is not valid (expected one line": refused(tmp_path, SPECK_TOKEN_FILE=str(two)),
        "cannot be used: No such file": refused(tmp_path, "--token-file", "nowhere"),
        "exclude each other": refused(tmp_path, "--token-file", two, "--tokens", two),
        "must be given together": refused(tmp_path, "--tls-cert", two),
    }
    for said, line in cases.items():
        assert said in line
        assert secret not in line
        assert "short\n" not in line


# --- the command line


def speck(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command of ``speck`` and what it said, in this process, with nothing of the environment's own."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPECK_")}
    command = ["speck", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, environment | variables, clear=True),
        patch.object(sys, "argv", command),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        cli.main()
    return subprocess.CompletedProcess(command, int(ended.value.code or 0), out.getvalue(), err.getvalue())


def test_the_command_line_brings_its_token_by_reference(door: Door, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{door.reader}\n")
    file.chmod(0o600)
    url = door.served.url
    for done in (
        speck("--server", url, "--token-file", file, "compositions", "--json"),
        speck("compositions", "--json", SPECK_URL=url, SPECK_TOKEN=door.reader),
        speck("compositions", "--json", SPECK_URL=url, SPECK_TOKEN_FILE=str(file)),
    ):
        assert (done.returncode, json.loads(done.stdout)) == (0, []), done.stderr
    without = speck("compositions", SPECK_URL=url)
    assert (without.returncode, "bearer token is needed" in without.stderr) == (1, True)
    wrong = speck("compositions", SPECK_URL=url, SPECK_TOKEN=door.stranger)
    assert (wrong.returncode, "the token is not valid here" in wrong.stderr) == (1, True)
    assert door.stranger not in wrong.stderr + wrong.stdout
    may_not = speck("delete", "nothing", SPECK_URL=url, SPECK_TOKEN=door.reader)
    assert (may_not.returncode, "can only read" in may_not.stderr) == (1, True), may_not.stderr


def test_tokens_are_made_listed_and_struck_off(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    made = speck("token", "add", file, "anna", "--role", "write")
    token = made.stdout.strip()
    assert (made.returncode, len(token) >= 40, token in made.stderr) == (0, True, False)
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    owner = TokenFile(file).owner(token.encode())
    assert owner == Owner("anna", Role.WRITE, digest(token.encode()))
    assert digest(token.encode()) not in repr(owner)
    assert speck("token", "add", file, "anna").returncode == 1
    assert speck("token", "list", file).stdout == "anna  write\n"
    assert speck("token", "remove", file, "anna").returncode == 0
    assert speck("token", "remove", file, "anna").returncode == 1


# --- browsers


def test_every_answer_tells_browsers_what_not_to_do(door: Door) -> None:
    host, port = door.served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(b"rubbish\r\n\r\n")
        broken = b""
        while part := connection.recv(65536):
            broken += part
    answers = [
        *(door.ask("GET", path, door.anna) for path in ("/jobs", "/metrics", "/nothing", "/openapi.json")),
        door.ask("GET", "/jobs"),
        door.ask("GET", "/healthz"),
        door.ask("OPTIONS", "/jobs", door.anna),
        door.ask("POST", "/compositions", door.anna, data=b"jobs: [", headers=YAML),
        door.ask("GET", "/artifacts/a/b/c"),
    ]
    for name, value in HEADERS.items():
        assert [answer.headers.get(name) for answer in answers] == [value] * len(answers), name
        assert f"{name}: {value}".encode() in broken
    policy = HEADERS["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert {answer.headers["Cache-Control"] for answer in answers} == {"no-store"}


def test_no_other_origin_is_let_in(door: Door) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "DELETE"}
    answer = door.ask("OPTIONS", "/jobs", door.anna, headers=asked)
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"X-Requested-By": "speck", "Sec-Fetch-Site": "same-origin", "Origin": "{url}"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Origin": "file://"}, 403),
        ({"Origin": "{url}.evil.example"}, 403),
        ({"Origin": "{url}0"}, 403),
        ({"Origin": ""}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "{url}"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "text/plain;charset=UTF-8", "Origin": "{url}"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
    ],
)
def test_another_page_changes_nothing(door: Door, headers: dict[str, str], status: int) -> None:
    """Not even with the token of who visits it, which no page has: a browser does not send it by itself."""
    sent = YAML | {name: value.format(url=door.served.url) for name, value in headers.items()}
    path = "/compositions?name=csrf&dry_run=true"
    answer = door.ask("POST", path, door.anna, data=ONE, headers=sent)
    assert answer.status_code == status, answer.text
    deleted = door.ask("DELETE", "/jobs/nothing", door.anna, headers=sent)
    assert (deleted.status_code == 404) == (status == 200), deleted.text


def test_another_page_reads_nothing_but_may_lead_to_the_dashboard(door: Door) -> None:
    embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    problem_of(door.ask("GET", "/jobs", door.anna, headers=embedded), 403)
    problem_of(door.ask("GET", "/", headers=embedded), 403)
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert door.ask("GET", "/", headers=followed).ok
    for path in (
        "/jobs",
        "/doctor",
        "/store/check",
        "/metrics",
    ):  # a frame there would request them without end
        problem_of(door.ask("GET", path, door.anna, headers=followed), 403)


def test_a_page_behind_a_proxy_that_speaks_tls_is_the_server_s_own() -> None:
    headers = requests.structures.CaseInsensitiveDict({"Origin": "https://speck.example"})
    assert foreign(headers, "speck.example", "POST") is None
    assert foreign(headers, "speck.example:443", "POST") is None
    assert foreign(headers, "speck.example:8180", "POST") is not None


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("speck.example", 200),
        ("SPECK.example.:8180", 200),
        ("localhost:99", 200),
        ("a.localhost", 200),
        ("[::1]:8180", 200),
        ("192.0.2.7", 200),
        ("evil.example", 421),
        ("speck.example.evil.example:8180", 421),
        ("127.0.0.1.evil.example", 421),
        ("[evil.example]", 421),
        ("[", 421),
        ("::1", 421),
        ("localhost.evil.example", 421),
        ("0x7f000001", 421),
        ("evil.example@127.0.0.1", 421),
    ],
)
def test_a_name_that_somebody_makes_point_here_is_not_answered(door: Door, host: str, status: int) -> None:
    for path in ("/jobs", "/healthz", "/artifacts/a/b/c"):
        answer = door.ask("GET", path, door.anna, headers={"Host": host})
        assert (answer.status_code == 421) == (status == 421), (path, answer.text)
    assert is_ours(host, {"speck.example"}) == (status == 200)


def test_the_names_of_a_server_that_others_reach() -> None:
    own = socket.gethostname().lower()
    others = ["http://site-7:8180/", "speck.example", "https://[2001:db8::1]:1"]
    everywhere = _names("0.0.0.0", others)  # noqa: S104 - not bound
    assert everywhere >= {own, f"{own}.local", "site-7", "speck.example"}
    assert _names("127.0.0.1", ["http://127.0.0.1:8180"]) == {"127.0.0.1"}
    assert "gate" in _names("Gate", [])


# --- too much


def test_a_client_s_rate() -> None:
    now = 0.0
    rates = Throttle(2.0, lambda: now)
    assert [rates.take("a") for _ in range(10)] == [0.0] * 10  # 5 s worth
    assert rates.take("a") == pytest.approx(0.5)
    assert rates.take("b") == 0.0
    now = 0.5
    assert (rates.take("a"), rates.take("a")) == (0.0, pytest.approx(0.5))
    now = 1000.0
    assert [rates.take("a") for _ in range(10)] == [0.0] * 10
    assert rates.take("a") > 0
    for number in range(30_000):
        rates.take(str(number))
    assert len(rates._free_at) == 10_000


def test_whom_requests_are_counted_for() -> None:
    assert client_of("192.0.2.7") == "192.0.2.7"
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:1%eth0") == "2001:db8::/64"
    assert client_of("::ffff:192.0.2.7") != client_of("::ffff:192.0.2.8")
    assert client_of("") == ""


def test_what_is_too_much_is_told_so(tmp_path: Path) -> None:
    """One server with small limits, one after the other."""
    limits = {"--max-operations": 1, "--max-jobs": 3, "--max-compositions": 2, "--rate": 4}
    with (
        served(tmp_path, *(each for pair in limits.items() for each in pair)) as server,
        requests.Session() as web,
    ):

        def apply(name: str, *jobs: str) -> requests.Response:
            url = f"{server.url}/compositions?name={name}&wait=60"
            return web.post(url, data=yaml_of(*jobs), headers=YAML, timeout=120)

        begun = web.post(
            f"{server.url}/compositions?name=one", data=yaml_of("slow a b"), headers=YAML, timeout=120
        )
        assert begun.status_code == 202
        refused = apply("two", "c d e")
        assert "1 operations are running (at most 1" in problem_of(refused, 503)["detail"]
        assert refused.headers["Retry-After"] == "5"
        server.go()
        followed = web.get(f"{server.url}/operations/{begun.json()['id']}/events", timeout=120)
        assert '"state": "succeeded"' in followed.text
        assert apply("two", "c d e", "f g h").json()["state"] == "succeeded"
        assert (
            "this server's limit of 3 jobs"
            in problem_of(apply("two", "c d e", "f g h", "i j k"), 409)["detail"]
        )
        assert "exceeds this server's limit of 2 compositions" in problem_of(apply("three"), 409)["detail"]
        assert apply("two", "c d e").json()["state"] == "succeeded"
        statuses = [web.get(f"{server.url}/healthz", timeout=120).status_code for _ in range(60)]
        assert {200, 429} == set(statuses)
        last = web.get(f"{server.url}/jobs", timeout=120)
        while last.status_code == 200:
            last = web.get(f"{server.url}/jobs", timeout=120)
        assert "more than 4 requests/s" in problem_of(last, 429)["detail"]
        assert int(last.headers["Retry-After"]) >= 1


def test_why_it_is_not_well_is_told_to_who_has_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rest_server(tmp_path, token="right") as rest:
        full = StoreFull("store '/somewhere/inside' is full")
        monkeypatch.setattr("speck.store.store.Store.failure", property(lambda _: full))
        assert requests.get(f"{rest.url}/healthz", timeout=120).json() == {"status": "ok"}
        known = requests.get(f"{rest.url}/healthz", headers={"Authorization": "Bearer right"}, timeout=120)
        assert known.json() == {"status": "ok", "store": str(full)}

        def unwell() -> None:
            raise full

        monkeypatch.setitem(rest.app.view_functions, "speck.healthz", unwell)
        stranger = requests.get(f"{rest.url}/healthz", timeout=120)
        assert problem_of(stranger, 507)["detail"] == "unhealthy (authenticate for details)"
        known = requests.get(f"{rest.url}/healthz", headers={"Authorization": "Bearer right"}, timeout=120)
        assert "/somewhere/inside" in problem_of(known, 507)["detail"]


def test_the_demo_s_server_takes_no_token_that_is_meant_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECK_TOKEN", "t" * 32)
    monkeypatch.setenv("SPECK_TOKEN_FILE", "nowhere")
    program = Program(
        "it", ["-c", "import os; print([name for name in os.environ if 'TOKEN' in name])"], tmp_path
    )
    said, _ = program.process.communicate(timeout=120)
    program.stop()
    assert b"SPECK" not in said
