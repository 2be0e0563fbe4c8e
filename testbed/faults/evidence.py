"""The evidence of a round in which messages were lost or doubled: their positions, and all servers' files."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from speck.client import Client
from speck.errors import SpeckError

_EVENTS = 1_000  # the newest ones


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in ascending order as text, with runs of them in short: ``3, 7-9``."""
    runs: list[list[int]] = []
    for each in numbers:
        if runs and each == runs[-1][1] + 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def missing(counts: Sequence[int]) -> str:
    """The positions of the messages of one writer that no job counted, as :func:`ranges`."""
    return ranges(number for number, count in enumerate(counts) if count == 0)


def answers(client: Client) -> dict[str, Any]:
    """The coordinator's view of its jobs, abandoned work and events, as far as it answers."""
    asked: dict[str, Callable[[], Any]] = {
        "jobs": lambda: [client.job(each["job_name"]) for each in client.jobs()],
        "left_behind": client.left_behind,
        "events": lambda: client.events(_EVENTS),
    }
    found: dict[str, Any] = {}
    for name, ask in asked.items():
        with suppress(SpeckError):
            found[name] = ask()
    return found


def preserve(directory: Path, facts: dict[str, Any], parent: Path | None = None) -> Path:
    """Copy the files of the servers of a round, with ``facts`` beside them; returns the copy's directory.

    It is made in ``parent``, by default that of temporary files.

    The servers may run on: a file that ends meanwhile is left out.
    """
    kept = Path(tempfile.mkdtemp(prefix="speck-broken-", dir=parent))
    (kept / "facts.json").write_text(json.dumps(facts, indent=1, default=str), encoding="utf-8")
    with suppress(shutil.Error):
        shutil.copytree(
            directory,
            kept / "servers",
            ignore=shutil.ignore_patterns("*.jar"),
            ignore_dangling_symlinks=True,
        )
    return kept
