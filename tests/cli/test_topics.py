"""The commands that read topics of a real broker: the examples of the pages, and input that is refused."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from speck import cli
from testbed import ROOT
from testbed.faults.flow import client
from testbed.servers.base import REFUSING_PORT
from testbed.servers.mosquitto import MosquittoServer
from tests.fixtures.speck_command import Output
from tests.support.docs_blocks import Block, Step, blocks, steps

SQL_PAGE, TOPICS_PAGE = (blocks(ROOT / "docs" / name) for name in ("sql.md", "topics.md"))
ADDRESS = "tcp://127.0.0.1:1883"  # of the pages
PATIENCE = 30.0  # s

SITES = """sites:
  A: {spe_address: 'sc://a:1', broker_address: 'tcp://a:1883'}
  B: {spe_address: 'sc://b:1', broker_address: 'tcp://b:1883', labels: [edge]}
"""
EACH = """topics:
  ${SENSORS:-sensors/1/speed}: {as: readings, at: A, schema: {speed: double}}
jobs:
- job_name: fast-${each.site:lower}
  for_each: {site: [A, B]}
  sql: SELECT speed FROM readings WHERE speed > 50
  sink_topic: ${OUT:-out}/results/${each.site}
- job_name: slow-${each.site:lower}
  for_each: {site: [A, B]}
  sql: SELECT speed FROM readings WHERE speed < 50
  sink_topic: ${OUT:-out}/slow
"""

Run = Callable[..., Output]
Publish = Callable[[str, list[str]], None]


@pytest.fixture(name="run")
def run_fixture(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function that runs a command in a folder with the files of both pages."""
    for block in (*SQL_PAGE, *TOPICS_PAGE):
        if "file" in block.notes:
            (tmp_path / block.notes["file"]).write_text(block.text)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Output:
        monkeypatch.setattr(sys, "argv", ["speck", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        captured = capsys.readouterr()
        return Output(code, captured.out, captured.err)

    return run


@pytest.fixture(name="broker")
def broker_fixture(site_brokers: dict[str, MosquittoServer]) -> MosquittoServer:
    return site_brokers["A"]


@pytest.fixture(name="publish")
def publish_fixture(broker: MosquittoServer) -> Iterator[Publish]:
    """A function that retains a message on each of several topics: a command finds them at once."""
    retained: list[str] = []
    with client(broker.address) as connection:

        def publish(form: str, messages: list[str]) -> None:
            for number, message in enumerate(messages):
                topic = form.format(number)
                connection.publish(topic, message, 1, retain=True).wait_for_publish(PATIENCE)
                retained.append(topic)

        yield publish
        for topic in retained:
            connection.publish(topic, b"", 1, retain=True).wait_for_publish(PATIENCE)


def text(page: list[Block], name: str) -> str:
    return next(each.text for each in page if each.notes.get("file") == name)


def step(page: list[Block], command: str) -> Step:
    """The command of a page that begins so, and what the page shows for it."""
    found = (each for block in page if block.language == "console" for each in steps(block))
    return next(each for each in found if each.command.startswith(f"speck {command}"))


@pytest.mark.engine
def test_the_page_shows_what_the_commands_say_of_a_sample(
    run: Run, publish: Publish, broker: MosquittoServer
) -> None:
    publish("sensors/{}/speed", text(TOPICS_PAGE, "sample.json").splitlines())
    shown = step(TOPICS_PAGE, "topics infer")
    words = shown.command.replace(ADDRESS, broker.address).replace("'", "").split()
    found = run(*words[1:])
    assert (found.code, found.err) == (0, "from 3 messages\n")
    assert steady(found.out.splitlines()) == steady(shown.shown or ())
    data = run(*words[1:], "--json").data
    assert data["schema"] == yaml.safe_load(found.out)["topics"]["sensors/+/speed"]["schema"]
    assert (data["event_times"], data["messages"]) == (["time"], 3)


def steady(lines: Iterator[str] | list[str] | tuple[str, ...]) -> list[str]:
    """Without what depends on the order in which the topics come."""
    return [each for each in lines if "watermark" not in each]


@pytest.mark.engine
def test_the_page_shows_which_messages_do_not_fit(
    run: Run, publish: Publish, broker: MosquittoServer, tmp_path: Path
) -> None:
    publish("sensors/{}/speed", text(SQL_PAGE, "readings.json").splitlines())
    shown = step(TOPICS_PAGE, "topics check")
    words = shown.command.replace(ADDRESS, broker.address).split()
    found = run(*words[1:])
    assert (found.code, found.out.splitlines()) == (1, list(shown.shown or ()))
    assert run(*words[1:], "--json").data["reasons"] == [
        {"column": "speed", "reason": "column 'speed' is 'fast' (expected double)", "messages": 1}
    ]
    # By the site of the topic, as the inventory knows it.
    (tmp_path / "sites.yaml").write_text(
        f"sites: {{A: {{spe_address: 'sc://127.0.0.1:{REFUSING_PORT}', broker_address: '{broker.address}'}}}}"
    )
    at_site = (
        (tmp_path / "towns.yaml").read_text().replace("    as: readings\n", "    as: readings\n    at: A\n")
    )
    (tmp_path / "at.yaml").write_text(at_site)
    found = run("topics", "check", "at.yaml", "--sites", "sites.yaml", "--limit", "4")
    assert "4 messages, 1 unparsable" in found.out


@pytest.mark.engine
def test_rows_are_shown_until_the_limit(run: Run, publish: Publish, broker: MosquittoServer) -> None:
    shown = step(SQL_PAGE, "sql tail")
    words = shown.command.replace(ADDRESS, broker.address).split()
    publish("results/fast", ['{"town":"Ulm","speed":63.5}'])
    one = [*words[1:-1], "1"]
    assert run(*one).out.splitlines() == list(shown.shown or ())[:2]
    assert json.loads(run(*one, "--json").out) == {"town": "Ulm", "speed": 63.5}
    publish("results/fast", ['{"town":"\\u001b[2J","speed":null}'])
    assert run(*one).out.splitlines()[1] == "\\x1b[2J".ljust(18) + "NULL".rjust(12)


@pytest.mark.engine
def test_messages_that_are_no_rows_are_listed_beside_them(run: Run, broker: MosquittoServer) -> None:
    ended = threading.Event()

    def alternate() -> None:
        """Publish until the command has ended: between two rows there is a message that is none."""
        with client(broker.address) as connection:
            while not ended.wait(0.01):
                for message in ("no row", '{"town":"Ulm","speed":63.5}'):
                    connection.publish("results/fast", message, 1).wait_for_publish(PATIENCE)

    thread = threading.Thread(target=alternate)
    thread.start()
    try:
        found = run(*f"sql tail towns.yaml fast --at {broker.address} --limit 2 --json".split())
    finally:
        ended.set()
        thread.join()
    assert len(found.out.splitlines()) == 2
    waiting, *others = found.err.splitlines()
    place = f"topic 'results/fast' at {broker.address}"
    assert waiting == f"waiting for messages of {place} (ends after 2 rows, or with Ctrl-C)"
    assert set(others) == {"results/fast: it is not JSON"}


@pytest.mark.engine
def test_a_table_is_shown_at_all_its_sites(run: Run, publish: Publish, broker: MosquittoServer) -> None:
    publish("sensors/{}/speed", text(SQL_PAGE, "readings.json").splitlines())
    words = ("--at", broker.address, "--limit", "3", "--json")
    rows = [
        json.loads(each) for each in run("sql", "tail", "towns.yaml", "readings", *words).out.splitlines()
    ]
    assert sorted(each["speed"] for each in rows) == [12, 63.5, 71]
    assert min(each["time"] for each in rows) == "2023-11-14T22:13:21.000Z"


@pytest.mark.engine
def test_a_topic_without_messages_is_named(run: Run, broker: MosquittoServer) -> None:
    found = run("topics", "infer", "never/+", "--at", broker.address, "--for", "100ms")
    assert found.code == 1 and "no message of 'never/+' came in 0.1 s" in found.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("topics infer a/+", "--at is missing"),
        ("topics infer a/+ --at Z", "--at: 'Z' is not a site (expected an address such as tcp://HOST:1883"),
        ("topics infer a/+ --at ftp://x", "topics at 'ftp://x' cannot be sampled (expected an MQTT broker"),
        ("topics infer a/+ --at kafka://x:1", "topics at 'kafka://x:1' cannot be sampled"),
        ("topics infer a/b+ --at tcp://x:1", "topic 'a/b+' has a misplaced '+'"),
        (f"topics infer a --at tcp://127.0.0.1:{REFUSING_PORT}", f"127.0.0.1:{REFUSING_PORT}"),
        ("topics infer a --at tcp://x:1 --for soon", "'soon' is not a time"),
        ("topics check towns.yaml", "table 'readings' has no site at which it is published"),
        ("topics check sellers.yaml", "--table is missing (expected one of persons, auctions)"),
        ("topics check sellers.yaml --table bids", "--table: 'bids' is not a table"),
        ("topics check plain.yaml", "plain.yaml has no table"),
        (
            "sql tail towns.yaml slow",
            "'slow' is neither a query nor a table (expected one of fast, readings)",
        ),
        ("sql tail towns.yaml readings", "does not say at which broker 'readings' is published"),
        ("sql tail towns.yaml fast", "--at: 'A' is not a site"),
        ("sql tail nameless.yaml jobs[0]", "query 'jobs[0]' has no results to show"),
        (
            "sql tail label.yaml fast-*",
            "query 'fast-*' runs at the sites of a label (expected --sites FILE",
        ),
        ("sql tail label.yaml slow-*", "does not say at which broker 'slow-*' is published"),
        ("sql tail nameless.yaml nowhere", "query 'nowhere' has no results to show"),
    ],
)
def test_what_cannot_be_read_is_named(run: Run, arguments: str, message: str) -> None:
    Path("plain.yaml").write_text("jobs: []\n")
    jobs = "[{sql: SELECT a FROM t, sink_topic: b}, {job_name: nowhere, sql: SELECT a FROM t}]"
    Path("nameless.yaml").write_text(f"topics: {{t: {{schema: {{a: int}}}}}}\njobs: {jobs}\n")
    Path("sites.yaml").write_text(SITES)
    Path("each.yaml").write_text(EACH)
    Path("label.yaml").write_text(EACH.replace("site: [A, B]", "sites: {label: edge}"))
    found = run(*arguments.split())
    assert found.code == 1 and message in found.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "topic", "brokers"),
    [
        ("topics check each.yaml", "sensors/1/speed", ["tcp://a:1883"]),
        ("topics check each.yaml --set SENSORS=x/+", "x/+", ["tcp://a:1883"]),
        ("sql tail each.yaml readings", "sensors/1/speed", ["tcp://a:1883"]),
        ("sql tail each.yaml fast-b", "out/results/B", ["tcp://b:1883"]),
        ("sql tail each.yaml fast-b --set OUT=x", "x/results/B", ["tcp://b:1883"]),
        ("sql tail label.yaml fast-b", "out/results/B", ["tcp://b:1883"]),
        ("sql tail label.yaml slow-b", "out/slow", ["tcp://b:1883"]),
    ],
)
def test_topics_have_the_values_of_variables_and_the_names_of_sites(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: str, topic: str, brokers: list[str]
) -> None:
    asked: list[tuple[str, list[str]]] = []

    @contextmanager
    def subscribed(topic: str, brokers: list[str], _: object) -> Iterator[list[object]]:
        asked.append((topic, brokers))
        yield []

    for module in ("topics", "tail"):
        monkeypatch.setattr(f"speck.cli.{module}.subscribed", subscribed)
        monkeypatch.setattr(f"speck.cli.{module}.received", lambda *_: iter(()))
    Path("sites.yaml").write_text(SITES)
    Path("each.yaml").write_text(EACH)
    Path("label.yaml").write_text(EACH.replace("site: [A, B]", "sites: {label: edge}"))
    run(*arguments.split(), "--sites", "sites.yaml")
    assert asked == [(topic, brokers)]


def test_queries_of_several_sites_are_explained_as_one_where_they_are_alike(run: Run) -> None:
    Path("each.yaml").write_text(EACH)
    Path("label.yaml").write_text(EACH.replace("site: [A, B]", "sites: {label: edge}"))

    def explained(*arguments: str) -> list[str]:
        return [each["job"] for each in run("sql", "explain", *arguments, "--json").data]

    assert explained("each.yaml") == explained("label.yaml") == ["fast-*", "slow-*"]
    assert explained("each.yaml", "--job", "fast-b") == ["fast-b"]
    Path("rows.json").write_text('{"speed": 60}\n')
    tried = run("sql", "try", "each.yaml", "--job", "fast-*", "--rows", "rows.json")
    assert (tried.code, tried.out) == (0, '{"speed":60.0}\n')
    Path("differ.yaml").write_text(EACH.replace("speed > 50", "speed > 50 AND '${each.site}' = 'A'"))
    assert explained("differ.yaml") == ["fast-a", "fast-b", "slow-*"]


def test_rows_that_do_not_come_are_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def subscribed(*_: object) -> Iterator[list[object]]:
        yield []

    monkeypatch.setattr("speck.cli.tail.subscribed", subscribed)
    found = run("sql", "tail", "towns.yaml", "fast", "--at", "tcp://x:1883", "--for", "0.1")
    assert found.err.splitlines() == [
        "waiting for messages of topic 'results/fast' at tcp://x:1883 (ends after 0.1 s, or with Ctrl-C)",
        "no message of results/fast came from tcp://x:1883",
    ]


def test_an_interrupt_ends_the_rows_without_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def subscribed(*_: object) -> Iterator[list[object]]:
        yield []

    def received(*_: object) -> Iterator[tuple[str, bytes]]:
        yield "results/fast", b'{"town":"Ulm","speed":63.5}'
        raise KeyboardInterrupt

    monkeypatch.setattr("speck.cli.tail.subscribed", subscribed)
    monkeypatch.setattr("speck.cli.tail.received", received)
    found = run("sql", "tail", "towns.yaml", "fast", "--at", "tcp://x:1883")
    assert found.code == 0
    assert found.err == "waiting for messages of topic 'results/fast' at tcp://x:1883 (Ctrl-C to end)\n"
    assert found.out.splitlines()[1] == "Ulm".ljust(16) + "63.5".rjust(14)
