"""``speck`` reaches its server directly, and through a proxy where the user names one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from testbed.servers.base import REFUSING_PORT
from testbed.servers.http import Handler, http_server
from testbed.servers.served_process import served
from testbed.servers.terminal import piped
from testbed.servers.web_proxy import web_proxy


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
                found = piped(url, "jobs", "--json", **variables)
                assert (found.returncode, found.stderr) == (0, "")
        assert proxy.seen == []


def test_a_proxy_that_the_user_names_is_used(tmp_path: Path) -> None:
    with served(tmp_path) as server, forwarding_proxy() as (proxy, seen):
        for named in (["--proxy", proxy, "jobs", "--json"], ["jobs", "--json"]):
            variables = {} if "--proxy" in named else {"SPECK_PROXY": proxy}
            found = piped(server.url, *named, **variables)
            assert (found.returncode, found.stderr) == (0, "")
        assert seen == [f"{server.url}/jobs"] * 2


def test_a_proxy_that_is_of_no_use_is_named(tmp_path: Path) -> None:
    server, nowhere = "http://127.0.0.1:8180", f"http://user:sesame@127.0.0.1:{REFUSING_PORT}"
    with web_proxy() as refusing:
        said = {
            refusing.url: f"answered, through the proxy {refusing.url}, HTTP 503, 'the proxy reaches",
            nowhere: f"the proxy {nowhere.replace('user:sesame', '***')} does not connect to {server}",
            "http://": "'http://' is not the address of a proxy (expected http://HOST:PORT)",
        }
        for proxy, words in said.items():
            found = piped(server, "jobs", SPECK_PROXY=proxy)
            assert found.returncode == 1
            assert words in found.stderr.replace("\n", " ")
            assert "sesame" not in found.stderr


PAGE = "<html><head><title>{title}</title></head><body><center>nginx</center></body></html>"
BEFORE_THE_SERVER = {
    413: ("413 Request Entity Too Large", "expected client_max_body_size 5m there"),
    301: ("301 Moved Permanently", "redirects to https://speck.example/ (expected the address of the server"),
    504: (
        "504 Gateway Time-out",
        "HTTP 504, '504 Gateway Time-out', which is not the answer of a SpecK server",
    ),
    404: ("404 Not Found", "HTTP 404, '404 Not Found', which is not the answer of a SpecK server"),
}


@pytest.mark.parametrize("status", BEFORE_THE_SERVER)
def test_an_answer_of_a_reverse_proxy_is_told_from_one_of_the_server(status: int) -> None:
    title, words = BEFORE_THE_SERVER[status]

    class Proxy(Handler):
        def do_GET(self) -> None:  # noqa: N802 - the name of the base class
            body = PAGE.format(title=title).encode()
            self.send_response(status)
            if status == 301:
                self.send_header("Location", "https://speck.example/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with http_server(Proxy) as port:
        found = piped(f"http://127.0.0.1:{port}", "jobs")
    assert found.returncode == 1
    assert words in " ".join(found.stderr.split())
