"""The end of an agent by hand: a connection to a hub, and the messages on it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

from websockets.sync.client import ClientConnection, connect

from speck.link.codec import encode
from speck.link.hello import Hello
from speck.link.hub import Hub
from speck.testing.waiting import eventually
from testbed.benches.double import BROKER, ENGINE
from testbed.benches.examples import one_site

HELLO = Hello(protocol=1, version="1", site="A", engines=(ENGINE,), broker=BROKER)
SITE = one_site("A", ENGINE, BROKER)
PATIENCE = 20.0
RIGHT = "right"


def listening(hub: Hub) -> str:
    """Start a hub; returns its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    hub.start(listener)
    return f"ws://127.0.0.1:{listener.getsockname()[1]}"


def dial(url: str, token: str = RIGHT, path: str = "/agent", **how: Any) -> ClientConnection:
    headers = {"Authorization": f"Bearer {token}"}
    found = connect(f"{url}{path}", additional_headers=headers, compression=None, proxy=None, **how)
    assert isinstance(found, ClientConnection)
    return found


def greet(agent: ClientConnection, hello: Hello = HELLO, **other: Any) -> dict[str, Any]:
    agent.send(json.dumps(encode(hello) | {"protocol": hello.protocol} | other))
    answer: dict[str, Any] = json.loads(agent.recv(PATIENCE))
    return answer


def answer(agent: ClientConnection, value: object) -> None:
    agent.send(json.dumps({"c": json.loads(agent.recv(PATIENCE))["c"], "r": value}))


def await_that(ask: Callable[[], bool]) -> None:
    eventually(ask, bool, PATIENCE)
