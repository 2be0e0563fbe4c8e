"""Delays the packets of a TUN device: ``python relay.py DEVICE``, with the standard library alone.

Each line of standard input is a JSON object, and is answered by one: ``{"site": N, "delay": s, "loss": share,
"out": bool}`` sets what is given of a site (its number is the third of its addresses), ``{"counters": true}``
asks for the bytes passed on between each two sites.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time
from collections import Counter, defaultdict
from itertools import count
from typing import Any

_TUNSETIFF = 0x400454CA  # linux/if_tun.h
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_LARGEST = 65_536  # bytes of an IP packet
_AT_ONCE = 64  # packets that are read before the due ones are written
_MOST_WAITING = 50_000  # packets; beyond it the next is dropped, as by a full router


class Relay:
    """Passes packets on after the delay of both ends' links."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._delay: defaultdict[int, float] = defaultdict(float)
        self._loss: defaultdict[int, float] = defaultdict(float)
        self._out: set[int] = set()
        self._waiting: list[tuple[float, int, bytes]] = []
        self._order = count()
        self._bytes: Counter[tuple[int, int]] = Counter()
        self._random = random.Random(1)  # noqa: S311 - of losses

    def run(self) -> None:
        """Until standard input ends."""
        lines = sys.stdin.fileno()
        while True:
            pause = None if not self._waiting else max(0.0, self._waiting[0][0] - time.monotonic())
            ready, _, _ = select.select([self._device, lines], [], [], pause)
            if lines in ready and not self._obey():
                return
            if self._device in ready:
                self._take()
            self._pass_on()

    def _obey(self) -> bool:
        line = sys.stdin.readline()
        if not line:
            return False
        print(json.dumps(self._answer(json.loads(line))), flush=True)
        return True

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked.get("counters"):
            return {"bytes": [[one, other, count] for (one, other), count in self._bytes.items()]}
        site = asked.get("site", 0)
        self._delay[site] = asked.get("delay", self._delay[site])
        self._loss[site] = asked.get("loss", self._loss[site])
        if "out" in asked:
            (self._out.add if asked["out"] else self._out.discard)(site)
        return {}

    def _take(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                packet = os.read(self._device, _LARGEST)
            except BlockingIOError:
                return
            if len(packet) < 20 or packet[0] >> 4 != 4:
                continue  # not IPv4
            one, other = packet[14], packet[18]
            if self._lost(one, other):
                continue
            due = time.monotonic() + self._delay[one] + self._delay[other]
            heapq.heappush(self._waiting, (due, next(self._order), packet))

    def _lost(self, one: int, other: int) -> bool:
        if one in self._out or other in self._out or len(self._waiting) >= _MOST_WAITING:
            return True
        loss = self._loss[one] + self._loss[other]
        return loss > 0 and self._random.random() < loss

    def _pass_on(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, packet = heapq.heappop(self._waiting)
            if packet[14] in self._out or packet[18] in self._out:
                continue
            os.write(self._device, packet)
            self._bytes[packet[14], packet[18]] += len(packet)


def open_device(name: str) -> int:
    """The file descriptor of a TUN device that exists; its packets have no header of their own."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI)
    fcntl.ioctl(device, _TUNSETIFF, request)
    return device


if __name__ == "__main__":
    Relay(open_device(sys.argv[1])).run()
