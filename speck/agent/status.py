"""The state of an agent's site by its files: for people at the site, without a coordinator."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from speck.agent.attempt_files import AttemptFiles
from speck.agent.site_file import read_site_file
from speck.core.durable_files import replace_file

LOCK = "lock"  # the file that an agent holds a lock on while it runs
_STATE = "state.json"


def status(directory: Path) -> dict[str, Any]:
    """The site, its contact, and its attempts as plain data.  Raises :class:`~speck.errors.InvalidInput`."""
    described = read_site_file(directory)
    records = sorted(AttemptFiles(directory / "attempts").read(), key=lambda each: each.attempt.job_name)
    return {
        "site": described.site.name,
        "coordinator": described.coordinator,
        "contact": contact(directory),
        "attempts": [
            {
                "job_name": each.attempt.job_name,
                "attempt": each.attempt.number,
                "engine": each.address,
                "phase": each.phase.value,
                "starts": each.runs,
                "reason": each.reason,
            }
            for each in records
        ],
    }


def contact(directory: Path) -> dict[str, Any]:
    """The contact of the agent: ``connected``, ``since`` (Unix time, s), ``reason``.

    It is the agent's last note if it runs; one that has ended, for whatever reason, has no contact.
    """
    known = read_state(directory)
    if known and not is_running(directory):
        before = f"; before that: {known['reason']}" if known.get("reason") else ""
        reason = f"the agent does not run (start it, or see journalctl -u speck-agent){before}"
        return {"connected": False, "since": None, "reason": reason}
    return {
        "connected": bool(known.get("connected", False)),
        "since": known.get("since"),
        "reason": str(known.get("reason", "the agent has not been started")),
    }


def is_running(directory: Path) -> bool:
    """True if an agent runs in a directory."""
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_state(directory: Path) -> dict[str, Any]:
    """The agent's own note of its contact, and of the highest epoch; empty without one."""
    try:
        found = json.loads((directory / _STATE).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_state(directory: Path, state: Mapping[str, Any]) -> None:
    """Replace that note.  Raises :class:`OSError`."""
    replace_file(directory / _STATE, json.dumps(state).encode())


def forget_epoch(directory: Path) -> None:
    """Accept any epoch next, as of another server.  Raises :class:`OSError`."""
    if (state := read_state(directory)).pop("epoch", 0):
        write_state(directory, state)
