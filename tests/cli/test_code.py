"""Code of jobs: found on the user's machine, sent with the composition, compared by what a job reaches."""

from __future__ import annotations

import hashlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import requests

from speck.cli.code import local_code
from speck.client import RequestRefused
from speck.errors import Conflict, InvalidInput, Rejected, Unreachable
from speck.server.tokens import Owner, Role, Tokens, digest
from speck.store.uploads import Uploads
from testbed.servers.rest import RestServer, rest_server, yaml_of
from tests.fixtures.speck_command import Output, Speck

AIR = """LIMIT = 30


def dirty(messages):
    return messages.filter(LIMIT)


def clean(messages):
    return messages
"""
JOBS = (
    "a in mid entry_class: dirty; job_path: air.py",
    "b mid out entry_class: clean; job_path: air.py",
)


def written(directory: Path, text: str = AIR, *jobs: str) -> Path:
    """A composition in a file, and the code beside it."""
    directory.mkdir(exist_ok=True)
    (directory / "air.py").write_text(text)
    entries = "".join(
        f"- job_name: {name}\n  source_topic: {reads}\n  sink_topic: {writes}\n  spe_address: sc://e1:15002\n"
        "  source_broker: tcp://b1:1883\n  sink_broker: tcp://b1:1883\n"
        f"  entry_class: {entry}\n  job_path: air.py\n"
        for name, reads, writes, entry in (
            each.split() for each in jobs or ("a in mid dirty", "b mid out clean")
        )
    )
    (directory / "air.yaml").write_text(f"jobs:\n{entries}")
    return directory / "air.yaml"


def running(rest: RestServer) -> dict[str, bytes]:
    """The code that runs, by job."""
    return {
        each.job.job_name: Path(each.job.job_path).read_bytes()
        for name in ("a", "b", "other")
        for each in rest.world.running(name)
    }


def test_code_beside_the_file_travels_with_it(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    file = written(tmp_path / "mine")
    assert not (rest.root / "air.py").exists()
    assert speck("plan", str(file)).code == 2
    assert speck("apply", str(file)).code == 0
    assert running(rest) == {"a": AIR.encode(), "b": AIR.encode()}
    unchanged = speck("plan", str(file))
    assert unchanged.code == 0 and "is used" not in unchanged.err


def test_code_below_a_root_of_this_machine(speck: Speck, rest: RestServer, tmp_path: Path) -> None:
    file = written(tmp_path / "mine")
    (tmp_path / "elsewhere").mkdir()
    (file.parent / "air.py").rename(tmp_path / "elsewhere" / "air.py")
    refused = speck("plan", str(file))
    assert refused.code == 1
    assert speck("apply", str(file), "--root", str(tmp_path / "elsewhere")).code == 0
    assert running(rest)["a"] == AIR.encode()


def test_a_file_that_neither_machine_has_is_told_with_both_searches(
    speck: Speck, rest: RestServer, tmp_path: Path
) -> None:
    file = written(tmp_path / "mine")
    (file.parent / "air.py").unlink()
    refused = speck("apply", str(file))
    assert refused.code == 1 and not running(rest)
    text = " ".join(refused.err.split())
    assert f"does not exist (searched in {rest.root} on {socket.gethostname()})" in text
    assert f"on this machine it does not exist (searched in {file.parent} on" in text


def test_a_path_below_the_server_s_roots_goes_on_working_and_is_told(
    speck: Speck, rest: RestServer, tmp_path: Path
) -> None:
    file = written(tmp_path / "mine")
    (file.parent / "air.py").rename(rest.root / "air.py")
    done = speck("plan", str(file))
    assert done.code == 2
    text = " ".join(done.err.split())
    used = "air.py: the server's own file is used; on this machine it does not exist"
    assert f"{used} (searched in {file.parent} on" in text


@pytest.mark.parametrize("path", ["${DIR:-.}/air.py", "${NAME:-air}.py"])
def test_code_at_a_path_with_the_default_of_a_variable_travels(
    rest: RestServer, speck: Speck, tmp_path: Path, path: str
) -> None:
    file = written(tmp_path / "mine")
    file.write_text(file.read_text().replace("air.py", path))
    (rest.root / "air.py").write_text(AIR.replace("30", "50"))  # an older one, which is not to run
    applied = speck("apply", str(file))
    assert applied.code == 0 and "the server's own file" not in applied.err
    assert running(rest) == {"a": AIR.encode(), "b": AIR.encode()}
    assert speck("place", str(file)).code == speck("plan", str(file)).code == 0


@pytest.mark.parametrize(
    ("field", "value", "files"),
    [
        ("job_path", "'jobs/${each.site:lower}.py'", ["jobs/a.py", "jobs/b.py"]),
        ("sql", "'${each.site:lower}.sql'", ["a.sql", "b.sql"]),
        ("key_split", "{policy: '${DIR:-trained}/${each.site}.npz'}", ["trained/A.npz", "trained/B.npz"]),
    ],
)
def test_files_of_each_site_are_found_at_named_sites_and_refused_at_those_of_a_label(
    tmp_path: Path, field: str, value: str, files: list[str]
) -> None:
    for each in files:
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).write_text("x = 1\n")
    text = f"jobs:\n- job_name: ${{each.site}}\n  for_each: {{site: [A, B]}}\n  {field}: {value}\n"
    assert [*local_code(text.encode(), tmp_path / "it.yaml", ()).found] == files
    by_label = text.replace("site: [A, B]", "sites: {label: edge}")
    with pytest.raises(InvalidInput, match=rf"line 4: job .*: {field} '.*' depends on the sites of a label"):
        local_code(by_label.encode(), tmp_path / "it.yaml", ())


def test_one_file_for_the_sites_of_a_label_travels(tmp_path: Path) -> None:
    (tmp_path / "air.py").write_text(AIR)
    text = b"jobs: [{job_name: '${each.site}', for_each: {sites: {label: edge}}, job_path: '${X:-air}.py'}]"
    assert set(local_code(text, tmp_path / "it.yaml", ()).found) == {"air.py"}


def test_two_users_with_one_path_and_different_texts(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    mine = written(tmp_path / "mine", AIR, "a in mid dirty")
    theirs = written(tmp_path / "theirs", AIR.replace("30", "40"), "other in2 mid2 dirty")
    theirs = theirs.rename(theirs.with_name("theirs.yaml"))
    (rest.root / "air.py").write_text(AIR.replace("30", "50"))
    assert speck("apply", str(mine)).code == 0
    assert speck("apply", str(theirs)).code == 0
    assert running(rest) == {"a": AIR.encode(), "other": AIR.replace("30", "40").encode()}
    assert speck("plan", str(mine)).code == speck("plan", str(theirs)).code == 0


def test_a_file_that_imports_a_module_beside_it_is_refused_before_it_is_sent(
    rest: RestServer, speck: Speck, tmp_path: Path
) -> None:
    file = written(tmp_path / "mine", f"import json\nimport units\n\n\n{AIR}")
    assert speck("plan", str(file)).code == 2  # nothing of that name is there: it may be at the site
    (file.parent / "units.py").write_text("LIMIT = 30\n")
    for command in ("plan", "apply"):
        refused = speck(command, str(file))
        text = " ".join(refused.err.split())
        assert refused.code == 1 and not running(rest)
        assert "air.py, line 2: imports 'units', which is units.py beside it and does not come along" in text
        assert "(expected a .zip or a wheel of both as job_path (Spark), or its functions in air.py)" in text


NAMES = (
    *("air 1.py", "air#1.py", "air%41.py", "air%.py", "luft-ä.py", "🚀.py", "a'b.py", 'a"b.py', "a\\b.py"),
    *("a+b&c=d.py", "a;b.py", "AIR.py", "x" * 252 + ".py", "ü" * 126 + ".py", "a b/ä#/c.py", "-x.py"),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_travels(rest: RestServer, speck: Speck, tmp_path: Path, name: str) -> None:
    file = written(tmp_path / "mine")
    (file.parent / name).parent.mkdir(parents=True, exist_ok=True)
    (file.parent / name).write_text(AIR)
    (file.parent / "air.py").write_text("raise SystemExit\n")
    file.write_text(
        file.read_text().replace("job_path: air.py", f"job_path: {json.dumps(name, ensure_ascii=False)}")
    )
    done = speck("apply", str(file))
    assert done.code == 0, done.err
    assert running(rest) == {"a": AIR.encode(), "b": AIR.encode()}
    assert speck("plan", str(file)).code == 0


@pytest.mark.parametrize("path", ["../secret.py", "/etc/passwd.py", ".hidden.py", "link.py"])
def test_nothing_outside_of_the_directory_is_sent(
    speck: Speck, rest: RestServer, tmp_path: Path, path: str
) -> None:
    file = written(tmp_path / "mine")
    for secret in (tmp_path / "secret.py", file.parent / ".hidden.py"):
        secret.write_text("def dirty(messages): return 'secret'\n")
    (file.parent / "link.py").symlink_to(tmp_path / "secret.py")
    file.write_text(file.read_text().replace("job_path: air.py", f"job_path: {path}"))
    assert speck("plan", str(file)).code == 1
    sent = [each.read_bytes() for each in rest.services.uploads.directory.rglob("*") if each.is_file()]
    assert sent == []


def test_a_server_that_accepts_no_code_runs_its_own(
    rest: RestServer, speck: Speck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    object.__setattr__(rest.services.uploads, "most_bytes", 0)
    file = written(tmp_path / "mine", AIR.replace("30", "40"))
    (rest.root / "air.py").write_text(AIR)
    done = speck("apply", str(file))
    assert done.code == 0 and running(rest)["a"] == AIR.encode()
    text = " ".join(done.err.split())
    assert "on this machine it exists, but the server accepts no code from clients" in text


def edit(file: Path, old: str, new: str) -> None:
    code = file.parent / "air.py"
    assert old in code.read_text()
    code.write_text(code.read_text().replace(old, new))


def lines(output: Output) -> list[str]:
    return [line.strip() for line in output.out.splitlines()]


def test_only_the_function_that_changed_is_restarted(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    file = written(tmp_path / "mine")
    assert speck("apply", str(file)).code == 0
    before = {name: rest.world.running(name)[0].attempt.id for name in ("a", "b")}
    edit(file, "LIMIT = 30", "LIMIT = 31")
    shown = speck("plan", str(file))
    assert shown.code == 2 and "code_hash" not in shown.out
    text = " ".join(shown.out.split())
    assert "air.py: `LIMIT` changed (1 line)" in text
    assert lines(shown)[2:4] == ["-LIMIT = 30", "+LIMIT = 31"]
    assert "b unchanged (air.py changed, but nothing that the job uses)" in text
    assert speck("apply", str(file)).code == 0
    after = {name: rest.world.running(name)[0].attempt.id for name in ("a", "b")}
    assert after["a"] != before["a"] and after["b"] == before["b"]
    assert running(rest)["a"].startswith(b"LIMIT = 31")


def test_lines_of_one_change_are_shown_once(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    file = written(tmp_path / "mine", AIR, "a in mid dirty", "b mid out dirty")
    speck("apply", str(file))
    edit(file, "LIMIT = 30", "LIMIT = 31")
    shown = speck("plan", str(file)).out
    assert shown.count("`LIMIT` changed (1 line)") == 2 and shown.count("+LIMIT = 31") == 1


def test_a_comment_restarts_nothing_and_makes_no_revision(
    rest: RestServer, speck: Speck, tmp_path: Path
) -> None:
    file = written(tmp_path / "mine")
    speck("apply", str(file))
    edit(file, "    return messages.filter(LIMIT)", "    # the dirty ones\n    return messages.filter(LIMIT)")
    shown = speck("plan", str(file), "--json")
    assert shown.code == 0
    assert [each["code"]["same"] for each in shown.data["actions"]] == [True, True]
    assert speck("apply", str(file)).code == 0
    assert len(rest.client.revisions("air")) == 1
    edit(file, "LIMIT = 30", "LIMIT = 31")  # compared with what runs, not with the last text
    assert speck("plan", str(file)).code == 2


def test_the_whole_file_counts_on_request(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    file = written(tmp_path / "mine")
    speck("apply", str(file))
    edit(file, "    return messages\n", "    return messages  # as they are\n")
    assert speck("plan", str(file)).code == 0
    shown = speck("plan", str(file), "--all-code")
    assert shown.code == 2
    assert " ".join(shown.out.split()).count("air.py changed (the whole file counts: as requested)") == 2
    before = {name: rest.world.running(name)[0].attempt.id for name in ("a", "b")}
    assert speck("apply", str(file), "--all-code").code == 0
    assert all(b"# as they are" in code for code in running(rest).values())
    assert before.keys() == running(rest).keys()
    assert not set(before.values()) & {rest.world.running(name)[0].attempt.id for name in ("a", "b")}
    assert speck("plan", str(file)).code == speck("plan", str(file), "--all-code").code == 0


def test_a_rule_that_is_found_by_its_base_counts(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    rules = "class Rule:\n    pass\n\n\nclass Wet(Rule):\n    limit = 1\n\n\n"
    job = "def dirty(messages):\n    return [each.limit for each in Rule.__subclasses__()]\n"
    file = written(tmp_path / "mine", rules + job, "a in out dirty")
    speck("apply", str(file))
    edit(file, "limit = 1", "limit = 2")
    assert "air.py: `Wet` changed (1 line)" in " ".join(speck("plan", str(file)).out.split())
    assert speck("apply", str(file)).code == 0
    assert b"limit = 2" in running(rest)["a"]


def test_the_difference_of_code_between_revisions(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    file = written(tmp_path / "mine")
    speck("apply", str(file))
    edit(file, "return messages.filter(LIMIT)", "more = LIMIT\n    return messages.filter(more)")
    speck("apply", str(file))
    plain = speck("diff", "air")
    assert "~ a  air.py: `dirty` changed (2 lines)" in plain.out and "code_hash" not in plain.out
    assert "messages.filter" not in plain.out
    with_code = speck("diff", "air", "--code")
    assert "-    return messages.filter(LIMIT)" in with_code.out
    assert "+    return messages.filter(more)" in with_code.out
    parts = speck("diff", "air", "--code", "--json").data["jobs"][0]["code"]["parts"]
    assert parts[0]["name"] == "dirty" and parts[0]["lines"] == 2 and len(parts[0]["diff"]) == 4


def test_a_rollback_over_a_comment_keeps_what_runs(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    file = written(tmp_path / "mine")
    speck("apply", str(file))
    edit(file, "LIMIT = 30", "LIMIT = 31")
    speck("apply", str(file))
    assert speck("rollback", "air").code == 0
    assert running(rest)["a"] == AIR.encode()
    edit(file, "LIMIT = 31", "# thirty\nLIMIT = 30")
    assert speck("plan", str(file)).code == 0


def test_a_deployment_by_the_hash_of_a_file_is_not_touched(
    rest: RestServer, speck: Speck, tmp_path: Path
) -> None:
    """The stored form has what former versions stored, so theirs is compared as any other."""
    file = written(tmp_path / "mine")
    (rest.root / "air.py").write_text(AIR)
    rest.client.apply(file.read_bytes(), "air", wait=30)  # as former clients: the path alone
    form = rest.client.revision("air", 1)["jobs"][0]
    assert form["code_hash"] == hashlib.sha256(AIR.encode()).hexdigest()
    assert form["job_path"] == "air.py"
    assert speck("plan", str(file)).code == 0


# --- built beforehand

BROKEN = Rejected("column 'humidty' cannot be resolved (air.py, line 5, column 28)", address="sc://e1:15002")


def test_code_that_cannot_be_built_stops_nothing(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    file = written(tmp_path / "mine")
    speck("apply", str(file))
    edit(file, "LIMIT = 30", "LIMIT = 31")
    edit(file, "    return messages\n", "    return messages  # as they are\n")
    file.write_text(file.read_text().replace("sink_topic: out", "sink_topic: other"))  # b is updated too
    rest.world.fail("build_job", BROKEN, name="a")
    calls = len(rest.world.calls)
    refused = speck("apply", str(file))
    assert refused.code == 1
    assert "job 'a': column 'humidty' cannot be resolved (air.py, line 5, column 28)" in refused.err
    assert "nothing was stopped" in refused.err
    assert [each for each in rest.world.calls[calls:] if each[0] in ("stop", "submit")] == []
    assert len(rest.client.revisions("air")) == 1
    assert running(rest) == {"a": AIR.encode(), "b": AIR.encode()}
    assert speck("apply", str(file)).code == 0  # the fault has gone


def test_a_plan_builds_on_request_only(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    file = written(tmp_path / "mine")
    rest.world.fail("build_job", BROKEN, name="a")
    assert speck("plan", str(file)).code == 2
    refused = speck("plan", str(file), "--build")
    assert refused.code == 1 and "humidty" in refused.err
    assert speck("plan", str(file), "--build").code == 2


def builds(rest: RestServer) -> list[str]:
    return [name for method, _, name in rest.world.calls if method == "build_job"]


def test_a_form_is_built_once_and_not_where_it_ran(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    jobs = ("a in mid dirty", "b mid out clean", "other in2 out2 dirty")
    file = written(tmp_path / "mine", AIR, *jobs)
    speck("apply", str(file))
    assert builds(rest) == []  # nothing was to be stopped for it
    edit(file, "LIMIT = 30", "LIMIT = 31")
    speck("plan", str(file), "--build")
    assert builds(rest) == ["a"]  # `other` has the same form of the same code
    speck("apply", str(file))
    file.write_text(file.read_text().replace("sink_topic: out2", "sink_topic: out3"))
    speck("apply", str(file))
    assert builds(rest) == ["a"]


def test_an_engine_that_does_not_answer_builds_nothing_and_is_reported(
    rest: RestServer, speck: Speck, tmp_path: Path
) -> None:
    file = written(tmp_path / "mine")
    speck("apply", str(file))
    edit(file, "LIMIT = 30", "LIMIT = 31")
    rest.world.fail("build_job", Unreachable("e1 is away", address="sc://e1:15002"), name="a")
    planned = speck("plan", str(file), "--build")
    assert planned.code == 2
    assert "job 'a' could not be built in advance: e1 is away" in planned.err


# --- REST


def test_a_form_with_the_files_or_their_hashes(rest: RestServer) -> None:
    text = yaml_of("a in out entry_class: dirty; job_path: air.py").replace("  entry_class: work\n", "", 1)
    text = text.replace("  job_path: work.py\n", "", 1)
    headers = {"X-Requested-By": "me"}
    url = f"{rest.url}/compositions?dry_run=true&name=air"
    files = {"composition": ("air.yaml", text), "air.py": ("air.py", AIR)}
    whole = requests.post(url, files=files, headers=headers, timeout=30)
    assert whole.status_code == 200, whole.text
    by_hash = {"air.py": f"sha256:{hashlib.sha256(AIR.encode()).hexdigest()}"}
    files.pop("air.py")
    again = requests.post(url, files=files, data=by_hash, headers=headers, timeout=30)
    assert again.status_code == 200 and again.json()["actions"] == whole.json()["actions"]
    unknown = requests.post(
        url, files=files, data={"air.py": "sha256:" + "0" * 64}, headers=headers, timeout=30
    )
    assert unknown.status_code == 422 and "does not have (send it again)" in unknown.json()["detail"]
    wrong = requests.post(url, files=files, data={"air.py": "air"}, headers=headers, timeout=30)
    assert "expected a file, or sha256:HASH" in wrong.json()["detail"]
    no_header = requests.post(url, files=files, timeout=30)
    assert no_header.status_code == 415  # as of any page


def test_an_artifact_is_asked_for_and_sent_in_parts(rest: RestServer) -> None:
    name = hashlib.sha256(AIR.encode()).hexdigest()
    url, headers = f"{rest.url}/artifacts/{name}", {"Content-Type": "application/octet-stream"}
    assert requests.head(url, timeout=30).status_code == 404
    first = requests.put(f"{url}?size={len(AIR)}", data=AIR[:10], headers=headers, timeout=30)
    assert first.json() == {"sha256": name, "received": 10, "complete": False}
    assert requests.get(url, timeout=30).json()["received"] == 10
    wrong = requests.put(f"{url}?size={len(AIR)}", data=AIR, headers=headers, timeout=30)
    assert wrong.status_code == 409
    rest.client.send_artifact(name, Path(_file(rest, AIR)))
    assert requests.head(url, timeout=30).status_code == 200
    bad = requests.put(f"{rest.url}/artifacts/{'0' * 64}", data=b"x", headers=headers, timeout=30)
    assert bad.status_code == 422


def test_a_file_that_two_clients_send_goes_on_where_the_other_one_is(
    rest: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a part that a client repeats, since its answer was lost."""
    monkeypatch.setattr("speck.client.client._PART", 100)
    name, path, client = hashlib.sha256(AIR.encode()).hexdigest(), Path(_file(rest, AIR)), rest.client
    ask, sent = client.ask, []

    def ask_late(method: str, url: str, **kwargs: Any) -> Any:
        if not sent:  # the first part of the other one comes before
            part = {"params": {"size": len(AIR)}, "headers": kwargs["headers"]}
            assert requests.put(f"{rest.url}{url}", data=AIR[:50], timeout=30, **part).ok
        sent.append(kwargs["query"]["offset"])
        return ask(method, url, **kwargs)

    monkeypatch.setattr(client, "ask", ask_late)
    assert client.send_artifact(name, path)
    assert sent == [0, 50]
    assert requests.head(f"{rest.url}/artifacts/{name}", timeout=30).status_code == 200


def test_a_file_that_two_clients_send_at_once(rest: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.client.client._PART", 7)
    name, path = hashlib.sha256(AIR.encode()).hexdigest(), Path(_file(rest, AIR))
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda _: rest.client.send_artifact(name, path), range(4)))


def test_a_part_that_is_refused_where_it_follows_is_an_error(
    rest: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a server that accepts no code any more."""
    path, client = Path(_file(rest, AIR)), rest.client
    monkeypatch.setattr(Uploads, "receive", Mock(side_effect=Conflict("no code")))
    with pytest.raises(RequestRefused, match="no code"):
        client.send_artifact(hashlib.sha256(AIR.encode()).hexdigest(), path)


def _file(rest: RestServer, text: str) -> str:
    path = rest.root / "sent.py"
    path.write_text(text)
    return str(path)


def test_a_reader_sends_nothing_and_sees_no_code(tmp_path: Path) -> None:
    owners = [Owner(each.value, each, digest(each.value.encode())) for each in (Role.READ, Role.WRITE)]
    with rest_server(tmp_path, token=Tokens(owners)) as rest:
        url = f"{rest.url}/artifacts/{'0' * 64}"
        read, write = ({"Authorization": f"Bearer {each}"} for each in ("read", "write"))
        assert requests.get(url, timeout=30).status_code == 401  # unlike the URLs of engines
        assert requests.get(url, headers=read, timeout=30).status_code == 404
        put = {"Content-Type": "application/octet-stream"}
        assert requests.put(url, data=b"x", headers=read | put, timeout=30).status_code == 403
        assert requests.put(url, data=b"x", headers=write | put, timeout=30).status_code == 422
        code = f"{rest.url}/compositions/air/code-diff"
        assert requests.get(code, headers=read, timeout=30).status_code == 403
        assert requests.get(code, headers=write, timeout=30).status_code == 404


def test_queries_in_files_are_found_as_code_is(tmp_path: Path) -> None:
    (tmp_path / "fast.sql").write_text("SELECT n FROM t")
    text = b"jobs: [{sql: '${FORM:-fast}.sql'}, {sql: gone.sql}, {sql: SELECT n FROM t}, {job_name: a}]"
    code = local_code(text, tmp_path / "it.yaml", ())
    assert set(code.found) == {"fast.sql"}
    assert set(code.missing) == {"gone.sql"}


def test_a_query_beside_the_file_travels_with_it(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    (tmp_path / "fast.sql").write_text("SELECT n FROM slow")
    (tmp_path / "it.yaml").write_text(
        "topics: {in: {as: t, schema: {n: bigint}}}\n"
        "jobs:\n- {job_name: a, spe_address: 'sc://e1:15002', source_broker: 'tcp://b1:1883', "
        "sink_broker: 'tcp://b1:1883', sink_topic: out, sql: fast.sql}\n"
    )
    found = speck("plan", str(tmp_path / "it.yaml"))
    assert found.code == 1
    # The server has read it: it knows what is in the file.
    assert "fast.sql, line 1, column 15: table 'slow' is not known" in found.err
