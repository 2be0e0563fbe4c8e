"""A change by the command line: planned, shown, confirmed, and carried out as it was shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from speck.cli import render
from speck.cli.confirmation import confirm
from speck.cli.options import CHANGES, NOTHING_TO_DO
from speck.cli.output import show_data, warn
from speck.cli.progress import carry_out
from speck.cli.waiting import waiting
from speck.client import Client

Ask = Callable[..., dict[str, Any]]


def change(
    client: Client,
    ask: Ask,
    query: dict[str, Any],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    show: bool = True,
) -> None:
    """Plan a change by ``ask`` and carry it out, unless it is a ``dry_run``.

    ``query`` are the parameters of the change.  Without ``show``, the plan is shown only where something is
    destroyed.  An edit in between makes the plan stale, and it is refused.
    """
    with waiting("planning"):
        planned = ask(**query, dry_run="true")
    warn(planned["warnings"])
    if dry_run or (show and not as_json):
        show_data(planned, render.plan_lines(planned), as_json)
    if dry_run:
        raise SystemExit(CHANGES if render.has_changes(planned) else NOTHING_TO_DO)
    confirm(planned, yes, shown=show and not as_json)
    query = {**query, "base_revision": planned["base_revision"]}
    if "restored" in planned:
        query["revision"] = planned["restored"]
    carry_out(client, lambda: ask(**query), as_json)
