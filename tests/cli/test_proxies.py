"""``speck`` reaches its server directly, and through a proxy where the user names one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.support.http_server import Handler, http_server
from tests.support.real_server import free_port
from tests.support.served_process import served
from tests.support.terminal import piped
from tests.support.web_proxy import web_proxy


@contextmanager
def forwarding_proxy() -> Iterator[tuple[str, list[str]]]:
    """A proxy that passes GETs on: its address, and the URLs that it was asked for."""
    seen: list[str] = []

    class Forwarding(Handler):
        def do_GET(self) -> None:  # noqa: N802 - the name of the base class
            seen.append(self.path)
            answer = requests.get(self.path, timeout=30)
            self.answer(answer.status_code, answer.content)

    with http_server(Forwarding) as port:
        yield f"http://127.0.0.1:{port}", seen


@pytest.mark.parametrize("exceptions", ["", "localhost,127.0.0.1"])
def test_proxies_of_the_environment_are_not_used(tmp_path: Path, exceptions: str) -> None:
    with web_proxy() as proxy:
        variables = proxy.variables | {"no_proxy": exceptions, "NO_PROXY": exceptions}
        with served(tmp_path, **variables) as server:
            for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
                found = piped(url, "jobs", **variables)
                assert (found.returncode, found.stderr) == (0, "")
        assert proxy.seen == []


def test_a_proxy_that_the_user_names_is_used(tmp_path: Path) -> None:
    with served(tmp_path) as server, forwarding_proxy() as (proxy, seen):
        for named in (["--proxy", proxy, "jobs"], ["jobs"]):
            variables = {} if "--proxy" in named else {"SPECK_PROXY": proxy}
            found = piped(server.url, *named, **variables)
            assert (found.returncode, found.stderr) == (0, "")
        assert seen == [f"{server.url}/jobs"] * 2


def test_a_proxy_that_is_of_no_use_is_named(tmp_path: Path) -> None:
    server, nowhere = "http://127.0.0.1:8180", f"http://user:sesame@127.0.0.1:{free_port()}"
    with web_proxy() as refusing:
        said = {
            refusing.url: f"is not a SpecK server (its answer, through the proxy {refusing.url}, has another",
            nowhere: f"the proxy {nowhere.replace('user:sesame', '***')} does not connect to {server}",
            "http://": "'http://' is not the address of a proxy (expected http://HOST:PORT)",
        }
        for proxy, words in said.items():
            found = piped(server, "jobs", SPECK_PROXY=proxy)
            assert found.returncode == 1
            assert words in found.stderr.replace("\n", " ")
            assert "sesame" not in found.stderr
