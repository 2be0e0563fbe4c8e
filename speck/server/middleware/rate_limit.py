"""Limits the requests of each client by a token bucket: a rate, and a burst."""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from flask import Flask, Response, request

from speck.server.api import problems

_AT_ONCE = 5.0  # s; what may be saved up
_MOST_CLIENTS = 10_000  # remembered


class Throttle:
    """Counts by client.  ``rate`` is in requests/s, ``clock`` in s."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._each, self._clock = 1 / rate, clock
        # The time at which all requests of a client would have been allowed at an even pace; absent: no wait.
        self._free_at: OrderedDict[str, float] = OrderedDict()
        # Requests are counted by many threads; two that read the same time would count as one.
        self._lock = threading.Lock()

    def take(self, client: str) -> float:
        """Count one request; returns 0, or the seconds after which it would be allowed."""
        with self._lock:
            now = self._clock()
            free_at = max(now, self._free_at.get(client, now))
            ahead = free_at + self._each - now - max(_AT_ONCE, self._each)
            if ahead > 1e-9:
                return ahead
            self._free_at[client] = free_at + self._each
            self._free_at.move_to_end(client)
            if len(self._free_at) > _MOST_CLIENTS:
                self._free_at.popitem(last=False)
            return 0.0


def register(app: Flask, rate: float) -> None:
    """Make the application refuse requests of a client beyond its rate (requests/s)."""
    throttle = Throttle(rate)

    @app.before_request
    def check() -> Response | None:
        wait = throttle.take(client_of(request.remote_addr or ""))
        if not wait:
            return None
        detail = f"more than {rate:g} requests/s from one client (try again; speck serve --rate sets it)"
        return problems.problem(429, detail, headers={"Retry-After": str(math.ceil(wait))})


def client_of(address: str) -> str:
    """The client that a request is counted for: an IPv4 address, or the /64 network of an IPv6 one."""
    try:
        number = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(number, ipaddress.IPv6Address) and number.ipv4_mapped is None:
        return str(ipaddress.ip_network((number, 64), strict=False))
    return str(number)
