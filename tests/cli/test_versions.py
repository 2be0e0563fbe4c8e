"""Commands and servers of different versions."""

from __future__ import annotations

from typing import Any

import pytest

from speck.client import Client
from speck.coordinator.queries.compositions import Queries
from speck.server.api import openapi
from testbed.servers.rest import RestServer
from tests.fixtures.speck_command import Speck


@pytest.fixture(name="theirs")
def theirs_fixture(monkeypatch: pytest.MonkeyPatch) -> str:
    """The version of the server, which is another than that of the command."""
    version: str = openapi.document()["info"]["version"]
    monkeypatch.setattr("speck.__version__", "99.0")
    monkeypatch.delenv("SPECK_DEBUG", raising=False)
    return version


def without_keys(queries: Queries) -> list[dict[str, Any]]:
    return [{}]


def test_an_answer_without_a_key_is_reported_with_both_versions(
    speck: Speck, rest: RestServer, theirs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Queries, "jobs", without_keys)
    said = speck("jobs")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("error: the answer of the server is not as expected (KeyError: ")
    assert said.err.endswith(
        f"): the server at {rest.url} runs SpecK {theirs}, and this command is SpecK 99.0 "
        "(upgrade the older of the two)\n"
    )


@pytest.mark.parametrize(
    ("query", "path", "words"),
    [
        ({}, "/later", "no such path (see /openapi.json)"),
        ({"later": "1"}, "/compositions", "unknown query parameter 'later' (this path takes none)"),
    ],
    ids=["path", "parameter"],
)
def test_a_request_that_the_server_does_not_know_is_reported_with_both_versions(
    speck: Speck,
    rest: RestServer,
    theirs: str,
    monkeypatch: pytest.MonkeyPatch,
    query: dict[str, str],
    path: str,
    words: str,
) -> None:
    monkeypatch.setattr(Client, "jobs", lambda client: client.many(path, **query))
    said = speck("jobs")
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        f"error: {words}: the server at {rest.url} runs SpecK {theirs}, and this command is SpecK 99.0 "
        "(upgrade the older of the two)\n"
    )


def test_other_refusals_say_nothing_of_versions(speck: Speck, rest: RestServer, theirs: str) -> None:
    assert theirs not in speck("show", "nothing").err


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.0", "(a fault inside SpecK; SPECK_DEBUG=1 shows where)"),
        (
            "1.1.dev0",
            "(a fault inside SpecK, or the server at {url} runs other code of 1.1.dev0: restart it; "
            "SPECK_DEBUG=1 shows where)",
        ),
    ],
)
def test_a_missing_key_in_an_answer_of_the_same_version(
    speck: Speck, rest: RestServer, monkeypatch: pytest.MonkeyPatch, version: str, words: str
) -> None:
    monkeypatch.delenv("SPECK_DEBUG", raising=False)
    monkeypatch.setattr("speck.__version__", version)
    monkeypatch.setattr(Client, "server_version", lambda client: version)
    monkeypatch.setattr(Queries, "jobs", without_keys)
    assert words.format(url=rest.url) in speck("jobs").err
