"""The computer of an agent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_PERMANENT = "0"  # the type of an address that its network adapter has of itself
_MOST = 4  # adapters that are named: an id is short (speck.link.hello.LONGEST)


def machine_id(root: Path = Path("/")) -> str:
    """The id of this computer: that of its system, then those of its board; any may be missing.

    A copy of a whole disk has the system's id, so that only the board differs.
    """
    return "-".join(filter(None, (_read(root / "etc/machine-id"), *_board(root))))


def is_machine(known: str, machine: str) -> bool:
    """True if two ids may be of one computer.

    An earlier version's has no board, nor has one of a start at which no adapter was there yet.
    """
    (system, *board), (other, *others) = known.split("-"), machine.split("-")
    return system == other and (not board or not others or not set(board).isdisjoint(others))


def _board(root: Path) -> list[str]:
    """The serial number of a board that has one; otherwise the addresses of adapters that are built in."""
    serial = _read(root / "sys/firmware/devicetree/base/serial-number")
    return [serial] if serial else sorted(filter(None, _addresses(root / "sys/class/net")))[:_MOST]


def _addresses(adapters: Path) -> Iterator[str]:
    for each in adapters.glob("*/device"):
        plugged = "/usb" in str(each.resolve())
        if not plugged and _read(each.with_name("addr_assign_type")) == _PERMANENT:
            yield _read(each.with_name("address")).replace(":", "")


def _read(path: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text("ascii").strip("\0 \n")
    return ""
