"""The upgrade of agents by the command line: planned, shown, confirmed, and followed to its end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import click

from speck.cli import render
from speck.cli.options import CHANGES, ERROR, INTERRUPTED, NOTHING_TO_DO
from speck.cli.output import show_data
from speck.cli.progress import transient
from speck.cli.terminal import err
from speck.cli.waiting import waiting
from speck.client import Client
from speck.errors import ServerError

_PAUSE = 0.5  # s between two polls
_RETRY_TIME = 60.0  # s, for a server that does not answer


def upgrade_agents(
    client: Client,
    names: Sequence[str],
    waves: Sequence[str],
    settle: float,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Upgrade the agents of sites, or of all without ``names``; ends the command with its exit code."""
    query = {"wave": list(waves), "settle": settle}
    with waiting("asking the agents"):
        planned = client.upgrade_sites(names, **query, dry_run="true")
    if dry_run or not as_json:
        show_data(planned, render.upgrade_lines(planned), as_json)
    if dry_run or not planned["sites"]:
        if as_json and not dry_run:
            show_data(planned, [], as_json)
        raise SystemExit(CHANGES if planned["sites"] and dry_run else NOTHING_TO_DO)
    _confirm(planned, yes)
    client.upgrade_sites(names, **query)
    ended = _follow(client, quiet=as_json)
    show_data(ended, [render.upgrade_summary(ended)], as_json)
    raise SystemExit(0 if ended["state"] == "succeeded" else ERROR)


def _confirm(planned: dict[str, Any], yes: bool) -> None:
    if yes:
        return
    count = len(planned["sites"])
    effect = f"replaces the agent{'s' * (count > 1)} of {count} site{'s' * (count > 1)}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.ClickException(
            f"this {effect}; no terminal to confirm it, so nothing was changed (use --yes to proceed without "
            "a question; --dry-run shows the plan)"
        )
    if not click.confirm(f"This {effect}; their jobs keep running.  Continue?", err=True):
        err.print("nothing was changed")
        raise SystemExit(ERROR)


def _follow(client: Client, *, quiet: bool) -> dict[str, Any]:
    """Show the progress until the end, which is returned; Ctrl-C does not stop the upgrade."""
    shown: dict[str, str] = {}
    wave = ""
    try:
        for upgrade in _poll(client):
            now = render.upgrade_wave_text(upgrade)
            if not quiet and now != wave and upgrade["state"] == "running":
                err.print(now, markup=False)
            wave = now
            for site in upgrade["sites"]:
                if not quiet and shown.setdefault(site["site"], "pending") != site["state"] != "untouched":
                    err.print(render.upgraded_line(upgrade, site))
                shown[site["site"]] = site["state"]
    except KeyboardInterrupt:
        err.print("\nThe upgrade continues.  Its outcome is an event: speck events")
        raise SystemExit(INTERRUPTED) from None
    return upgrade


def _poll(client: Client) -> Iterator[dict[str, Any]]:
    """The successive states of the upgrade up to its end; outages of the server are waited out."""
    answered = time.monotonic()
    while True:
        try:
            upgrade = client.upgrade_of_sites()
        except ServerError as error:
            problem = transient(error)
            if time.monotonic() - answered > _RETRY_TIME:
                raise ServerError(
                    f"{problem} (repeat the command: it skips the agents that are upgraded)"
                ) from error
        else:
            answered = time.monotonic()
            yield upgrade
            if upgrade["state"] != "running":
                return
        time.sleep(_PAUSE)
