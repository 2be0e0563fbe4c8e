"""The requests that a job's driver accepts, without Spark."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from urllib.error import HTTPError

import pytest

from binders.spark.standalone.driver_control import listen

TOKEN = "a-token"


class Query:
    """A query whose plan can be read unless it ``ends``."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.ends = False

    def plan(self) -> str:
        if self.ends:
            raise RuntimeError("the Java process has ended")
        return "Scan \N{RIGHTWARDS ARROW} Project"


@pytest.fixture(name="query")
def query_fixture() -> Query:
    return Query()


@pytest.fixture(name="url")
def url_fixture(query: Query) -> Iterator[str]:
    yield listen("127.0.0.1", TOKEN, query.stop, query.plan)


def ask(url: str, method: str, token: str | None = TOKEN) -> tuple[int, str]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310 - our own
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - our own
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("token", [None, "", "another", "a-token\N{LATIN SMALL LETTER AE}"])
def test_a_request_without_the_token_is_refused(query: Query, url: str, token: str | None) -> None:
    assert ask(url, "POST", token)[0] == ask(f"{url}/plan", "GET", token)[0] == HTTPStatus.FORBIDDEN
    assert not query.stop.is_set()


def test_a_request_to_stop(query: Query, url: str) -> None:
    assert ask(url, "POST")[0] == HTTPStatus.ACCEPTED
    assert query.stop.is_set()


def test_the_plan(query: Query, url: str) -> None:
    assert ask(f"{url}/plan", "GET") == (HTTPStatus.OK, query.plan())
    assert ask(f"{url}/other", "GET")[0] == HTTPStatus.NOT_FOUND
    query.ends = True
    assert ask(f"{url}/plan", "GET")[0] == HTTPStatus.INTERNAL_SERVER_ERROR


def test_an_address_of_another_machine_gives_no_url(query: Query) -> None:
    assert listen("192.0.2.1", TOKEN, query.stop, query.plan) == ""
