"""The log: what each line says of itself, in whatever thread it was written, and what no line says."""

from __future__ import annotations

import io
import json
import logging
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from speck.logs import about, carried, handler
from testbed.servers.rest import yaml_of
from testbed.servers.served_process import served

TOKEN = "a-token-that-nobody-may-read"
SITES = """\
sites:
  north:
    spe_address: sc://e1:15002
    broker_address: tcp://b1:1883
"""
TWO = yaml_of("a t0 t1", "b t1 t2")


@contextmanager
def log(form: str) -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger of its own, and what it writes."""
    stream, logger = io.StringIO(), logging.getLogger("tests.log")
    logger.propagate, logger.level = False, logging.INFO
    logger.handlers = [handler(form, stream)]
    yield logger, stream
    logger.handlers = []


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_what_it_belongs_to() -> None:
    with log("json") as (logger, stream):
        with about(operation="o1", composition="traffic"):
            with about(job="a", site=None):
                logger.warning("job %r is %s", "a", "late", extra={"address": "sc://e1:1"})
            logger.info("done", extra={"error": "", "unknown": "field"})
        logger.info("alone")
    first, second, third = lines(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", first.pop("time"))
    assert first == {
        "level": "warning",
        "logger": "tests.log",
        "message": "job 'a' is late",
        "operation": "o1",
        "composition": "traffic",
        "job": "a",
        "address": "sc://e1:1",
    }
    assert (second.keys() & {"job", "error", "unknown"}, second["operation"]) == (set(), "o1")
    assert third.keys() == {"time", "level", "logger", "message"}


def test_what_is_said_once_goes_along_into_other_threads() -> None:
    with log("json") as (logger, stream), ThreadPoolExecutor(1) as threads:

        def work() -> None:
            with about(attempt="7"):
                logger.info("at work")

        with about(operation="o1"):
            threads.submit(carried(work)).result()
        with about(operation="o2"):
            threads.submit(carried(work)).result()
        threads.submit(work).result()  # and stays with nobody else's work there
    assert [(each.get("operation"), each["attempt"]) for each in lines(stream)] == [
        ("o1", "7"),
        ("o2", "7"),
        (None, "7"),
    ]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_tells_no_values(form: str) -> None:
    with log(form) as (logger, stream):
        password = "".join(["hun", "ter2"])
        try:
            raise ValueError(len(password))
        except ValueError:
            logger.exception("it failed")
    written = stream.getvalue()
    assert "ValueError: 7" in written
    assert "test_a_traceback_tells_no_values" in written
    assert password not in written
    assert len(written.splitlines()) == 1 or form == "text"


@pytest.mark.parametrize("form", ["text", "json"])
def test_nobody_else_writes_a_line(form: str) -> None:
    """As a path that a client asks for, or an engine's error, might try."""
    forged = "late\n2026-01-01T00:00:00Z [info     ] all is well\r\x1b[2J\x9b2J\x7f\x85\u2028 \u00fc"
    with log(form) as (logger, stream), about(job=forged):
        logger.warning("it is %s", forged)
    written = stream.getvalue()
    assert len(written.splitlines()) == 1
    assert {each for each in written if not each.isprintable()} == {"\n"}
    assert "\u00fc" in written
    if form == "json":
        assert json.loads(written)["message"].startswith("it is late\n2026-01-01")


def test_text_is_one_line_for_people() -> None:
    with log("text") as (logger, stream), about(operation="o1", job="a"):
        logger.warning("it is late")
    assert re.fullmatch(r"\S+Z \[warning\] it is late \[tests\.log\] job=a operation=o1\n", stream.getvalue())


def apply(url: str, text: str) -> dict[str, Any]:
    answer = requests.post(
        f"{url}/compositions",
        data=text,
        params={"name": "traffic", "wait": "30", "author": "anna"},
        headers={"Content-Type": "application/yaml", "Authorization": f"Bearer {TOKEN}"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_log_of_an_apply(tmp_path: Path) -> None:
    (tmp_path / "sites.yaml").write_text(SITES)
    options = ("--sites", "sites.yaml", "--log-format", "json", "--log-level", "debug")
    with served(tmp_path, *options, SPECK_TOKEN=TOKEN) as server:
        operation = apply(server.url, TWO)
        wrong = requests.get(
            f"{server.url}/jobs", headers={"Authorization": "Bearer " + TOKEN[:-1]}, timeout=30
        )
        assert wrong.status_code == 401
        server.process.send_signal(signal.SIGTERM)
        _, errors = server.process.communicate(timeout=60)
    assert TOKEN[:-1] not in errors
    written = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    said = [line for line in errors.splitlines() if not line.startswith("{")]
    assert said == ["SIGTERM: finishing the running operations"]
    own = {"operation": operation["id"], "composition": "traffic"}
    (accepted,) = (each for each in written if each.get("event_kind") == "accepted")
    assert own.items() <= accepted.items()
    assert accepted["author"] == "anna"
    for job in ("a", "b"):
        (started,) = (each for each in written if each.get("event_kind") == "started" and each["job"] == job)
        assert (own | {"site": "north", "logger": "speck.audit", "level": "info"}).items() <= started.items()
        assert re.fullmatch("[0-9a-f]{32}", started["attempt"])
        for call in ("submit", "fence"):
            (asked,) = (each for each in written if each.get("call") == call and each.get("job") == job)
            assert (own | {"attempt": started["attempt"], "level": "debug"}).items() <= asked.items()
    # Every call is the operation's, but the looks of the loop, and those for what other stores have
    # before it, and says of which job it is, if of one.
    observations = {each["call"] for each in written if "call" in each and "operation" not in each}
    assert observations == {"statuses", "close", "running", "foreign_sessions"}
    assert {"check", "submit", "fence"} <= {each.get("call") for each in written if each.get("job") == "a"}
    rounds = [each for each in written if each.get("call") == "statuses"]
    assert not [each for each in rounds if "operation" in each]


def test_by_default_only_trouble_is_logged(tmp_path: Path) -> None:
    with served(tmp_path, SPECK_TOKEN=TOKEN) as server:
        apply(server.url, TWO)
        server.process.send_signal(signal.SIGTERM)
        _, errors = server.process.communicate(timeout=60)
    assert errors.splitlines() == ["SIGTERM: finishing the running operations"]
