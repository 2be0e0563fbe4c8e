"""The computer of an agent."""

from __future__ import annotations

import contextlib
from pathlib import Path

_MACHINE = Path("/etc/machine-id")


def machine_id() -> str:
    """The id of this computer; empty where the system has none."""
    with contextlib.suppress(OSError):
        return _MACHINE.read_text().strip()
    return ""
