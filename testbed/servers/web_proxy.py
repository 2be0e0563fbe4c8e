"""A proxy for web pages that reaches nothing, as the environment of a company's machine names one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from testbed.servers.http import Handler, http_server


class Environment(Protocol):
    """The environment of a process, whose variables can be set; a test's ``monkeypatch`` is one."""

    def setenv(self, name: str, value: str) -> None:
        """Set a variable."""


@dataclass
class WebProxy:
    """``url`` is its address, ``seen`` the requests that it has received, each refused with 503."""

    url: str
    seen: list[str] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that programs look at, in both spellings."""
        names = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy", "mqtt_proxy")
        return {each: self.url for name in names for each in (name, name.upper())}

    def install(self, environment: Environment, exceptions: str = "") -> None:
        """Name it in an environment, with ``exceptions`` as of ``no_proxy``."""
        for name, value in self.variables.items():
            environment.setenv(name, value)
        for name in ("no_proxy", "NO_PROXY"):
            environment.setenv(name, exceptions)


@contextmanager
def web_proxy() -> Iterator[WebProxy]:
    """Run one on a free loopback port until the block ends."""
    seen: list[str] = []

    class Refusing(Handler):
        def refuse(self) -> None:
            self.body()
            seen.append(self.requestline)
            self.answer(503, b"<html>the proxy reaches nothing</html>", "text/html")

        do_GET = do_PUT = do_POST = do_DELETE = do_CONNECT = refuse  # noqa: N815 - the names of http.server

    with http_server(Refusing) as port:
        yield WebProxy(f"http://127.0.0.1:{port}", seen)
