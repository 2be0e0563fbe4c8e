"""A wide area network on one machine: a network namespace for each site, joined by links of given quality.

::

    site A                     router                      site B
    wan --tbf (up of A)--> a ─┐        ┌─ b --tbf (down of B)--> wan
                              └─ delay ┘
                               relay (delay, loss, outage, byte counters)

All packets between two sites go through the TUN device ``delay`` of the router, which a relay process reads
and writes (:mod:`speck.local.wan.relay`); token bucket filters bound what a site sends and receives.  This
machine itself reaches each site over a link of its own without delay or bound: by the same address, since a
route decides, not the address.  Needs root and ``/dev/net/tun``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from speck.errors import LocalError

_RELAY = Path(__file__).with_name("relay.py")
_TUN = Path("/dev/net/tun")
_LEAST_QUEUE = 32 * 1024  # bytes
_QUEUE_SECONDS = 0.1  # of traffic at full bandwidth that a link buffers
_LEAST_BURST = 3200  # bytes: two packets
_BURST_SECONDS = 0.004  # of a kernel's timer tick
_TABLE = 100  # of routes for packets that come from a site


@dataclass(frozen=True, slots=True)
class EmulatedLink:
    """A site's link: bandwidths in bit/s (``None``: unbounded), ``delay`` one way to the middle, s."""

    up: float | None = None
    down: float | None = None
    delay: float = 0.0
    loss: float = 0.0

    @classmethod
    def of(cls, bandwidth: float | None, round_trip: float, loss: float = 0.0) -> EmulatedLink:
        """A link of the same bandwidth both ways, two of which have this round trip time, s."""
        return cls(bandwidth, bandwidth, round_trip / 4, loss)

    def declared(self) -> dict[str, str]:
        """The field ``uplink`` of a site with this link, as an inventory has it."""
        bandwidths = {"bandwidth": self.up, "downlink": self.down}
        known = {name: f"{value:.0f} bit/s" for name, value in bandwidths.items() if value is not None}
        return known | {"latency": f"{1000 * self.delay:g} ms"}


def unavailable() -> str:
    """The reason why no network can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "a network needs root, for network namespaces"
    if not _TUN.exists():
        return f"a network needs {_TUN}"
    missing = [each for each in ("ip", "tc") if shutil.which(each) is None]
    if missing:
        return f"a network needs {' and '.join(missing)} (iproute2)"
    try:
        with Network({"A": EmulatedLink(up=1e6)}):
            return ""
    except (LocalError, OSError) as error:  # in a container without the right to
        return f"a network needs network namespaces: {error}"


class Network:
    """The namespaces, links and relay; a context manager.  ``links`` are the sites' by name, 60 at most.

    Raises :class:`~speck.errors.LocalError` for a command that fails.
    """

    def __init__(self, links: Mapping[str, EmulatedLink]) -> None:
        self.links = dict(links)
        self._numbers = {name: number for number, name in enumerate(links, start=1)}
        self._mark = f"speck{uuid.uuid4().hex[:6]}"
        self._net = 0
        self._stack = ExitStack()
        self._relay: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._net = _unused_net()
            self._make_router(stack)
            for site in self._numbers:
                self._make_site(stack, site)
            stack.callback(self._stop_relay)
            self._start_relay()
            for site, link in self.links.items():
                self.set_link(site, link)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # --- places

    def address(self, site: str) -> str:
        """The address of a site, the same for the other sites and for this machine."""
        return f"10.{self._net}.{self._numbers[site]}.1"

    @property
    def address_here(self) -> str:
        """The address of this machine as all sites see it."""
        return f"10.{self._net}.255.254"

    def namespace(self, site: str) -> str:
        """The name of a site's network namespace."""
        return f"{self._mark}-{self._numbers[site]}"

    def command(self, site: str, arguments: Sequence[str]) -> list[str]:
        """The command that runs another one at a site."""
        return ["ip", "netns", "exec", self.namespace(site), *arguments]

    # --- links

    def set_link(self, site: str, link: EmulatedLink) -> None:
        """Change the link of a site; packets on their way keep their delay."""
        self.links[site] = link
        _shape(["ip", "netns", "exec", self.namespace(site)], "wan", link.up)
        _shape(["ip", "netns", "exec", self._router], f"s{self._numbers[site]}", link.down)
        self._request({"site": self._numbers[site], "delay": link.delay, "loss": link.loss})

    def cut(self, site: str, out: bool = True) -> None:
        """Drop all packets from and to a site from now on, or let them pass again."""
        self._request({"site": self._numbers[site], "out": out})

    def bytes_between(self) -> dict[tuple[str, str], int]:
        """The bytes of the IP packets that the relay has passed on, by sender and receiver."""
        names = {number: name for name, number in self._numbers.items()}
        answer = self._request({"counters": True})
        return {(names[one], names[other]): count for one, other, count in answer["bytes"]}

    @property
    def relay_pid(self) -> int:
        """The relay's process id."""
        assert self._relay is not None  # noqa: S101 - within the block
        return self._relay.pid

    # --- making it

    @property
    def _router(self) -> str:
        return f"{self._mark}-r"

    def _make_router(self, stack: ExitStack) -> None:
        _add_namespace(stack, self._router)
        inside = ["ip", "netns", "exec", self._router]
        for setting in ("ip_forward=1", "conf.all.rp_filter=0", "conf.default.rp_filter=0"):
            name, _, value = setting.partition("=")
            path = f"/proc/sys/net/ipv4/{name.replace('.', '/')}"
            _run(*inside, "sh", "-c", f"echo {value} > {path}")
        _run(*inside, "sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/all/send_redirects")
        _run(*inside, "ip", "tuntap", "add", "dev", "delay", "mode", "tun")
        _run(*inside, "ip", "link", "set", "delay", "up", "txqueuelen", "10000")
        _run(*inside, "ip", "route", "add", "default", "dev", "delay", "table", str(_TABLE))

    def _make_site(self, stack: ExitStack, site: str) -> None:
        number, name = self._numbers[site], self.namespace(site)
        _add_namespace(stack, name)
        self._join(site, self._router, f"s{number}", "wan")
        # Packets of a wire's size: after a change to a narrower link, a larger one that already waits would
        # never fit into its burst, and nothing would pass behind it.
        _run("ip", "-n", name, "link", "set", "wan", "gso_max_segs", "1")
        inside, net = ["ip", "netns", "exec", name], f"10.{self._net}"
        router = ["ip", "netns", "exec", self._router]
        _run(*inside, "ip", "address", "add", f"{net}.{number}.1/24", "dev", "wan")
        _run(*router, "ip", "address", "add", f"{net}.{number}.254/24", "dev", f"s{number}")
        _run(*router, "ip", "rule", "add", "iif", f"s{number}", "lookup", str(_TABLE))
        _run(*inside, "ip", "route", "add", f"{net}.0.0/17", "via", f"{net}.{number}.254")
        self._join_here(site)

    def _join_here(self, site: str) -> None:
        """The link to this machine, which is neither delayed nor bound."""
        number, name, net = self._numbers[site], self.namespace(site), f"10.{self._net}"
        device = f"{self._mark}h{number}"[:15]
        here, there = f"{net}.255.{2 * number}", f"{net}.255.{2 * number + 1}"
        _run("ip", "link", "add", device, "type", "veth", "peer", "name", "here", "netns", name)
        _run("ip", "address", "add", f"{here}/31", "dev", device)
        _run("ip", "address", "add", f"{self.address_here}/32", "dev", device)
        _run("ip", "link", "set", device, "up")
        inside = ["ip", "netns", "exec", name]
        _run(*inside, "ip", "address", "add", f"{there}/31", "dev", "here")
        _run(*inside, "ip", "link", "set", "here", "up")
        _run(*inside, "ip", "route", "add", f"{self.address_here}/32", "via", here)
        _run("ip", "route", "add", f"{self.address(site)}/32", "via", there)

    def _join(self, site: str, other: str, theirs: str, ours: str) -> None:
        name = self.namespace(site)
        _run(
            *("ip", "-n", other, "link", "add", theirs, "type", "veth"),
            *("peer", "name", ours, "netns", name),
        )
        _run("ip", "-n", other, "link", "set", theirs, "up")
        _run("ip", "-n", name, "link", "set", ours, "up")

    # --- the relay

    def _start_relay(self) -> None:
        self._relay = subprocess.Popen(
            ["ip", "netns", "exec", self._router, sys.executable, "-I", str(_RELAY), "delay"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._request({})  # it answers once the device is open

    def _stop_relay(self) -> None:
        if self._relay is not None:
            self._relay.kill()
            self._relay.communicate()

    def _request(self, message: Mapping[str, Any]) -> dict[str, Any]:
        relay = self._relay
        assert relay is not None  # noqa: S101 - within the block
        assert relay.stdin is not None  # noqa: S101 - pipes were asked for
        assert relay.stdout is not None  # noqa: S101
        relay.stdin.write(json.dumps(message) + "\n")
        relay.stdin.flush()
        line = relay.stdout.readline()
        if not line:
            raise LocalError(f"the relay has ended with {relay.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _add_namespace(stack: ExitStack, name: str) -> None:
    _run("ip", "netns", "add", name)
    stack.callback(_run, "ip", "netns", "delete", name)
    _run("ip", "-n", name, "link", "set", "lo", "up")


def _shape(inside: Sequence[str], device: str, bandwidth: float | None) -> None:
    """Bound what a device sends, bit/s; ``None``: not at all."""
    if bandwidth is None:
        shown = _run(*inside, "tc", "qdisc", "show", "dev", device)
        if "tbf" in shown:
            _run(*inside, "tc", "qdisc", "delete", "dev", device, "root")
        return
    octets = bandwidth / 8
    burst = max(_LEAST_BURST, round(octets * _BURST_SECONDS))
    queue = max(_LEAST_QUEUE, round(octets * _QUEUE_SECONDS))
    _run(
        *(*inside, "tc", "qdisc", "replace", "dev", device, "root", "tbf"),
        *("rate", f"{round(bandwidth)}bit", "burst", str(burst), "limit", str(queue)),
    )


def _unused_net() -> int:
    """The second number of a 10.N.0.0/16 of which this machine has no address."""
    taken = _run("ip", "-4", "-brief", "address")
    start = os.getpid() % 200
    found = next((n for n in range(start + 20, start + 55) if f" 10.{n}." not in taken), None)
    if found is None:
        raise LocalError("no net 10.N.0.0/16 is unused on this machine")
    return found


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout
