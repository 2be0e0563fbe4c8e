"""The question before a destructive change, and its refusal without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from speck.cli import render
from speck.cli.options import ERROR
from speck.cli.render.folding import folded_lines
from speck.cli.terminal import err

_NAMED = 5  # jobs that are named before the others are counted
_EFFECTS = {  # by the kind of what is destroyed: before and after the number of jobs
    "job": ("permanently stops", ""),
    "state": ("deletes the state of", ""),
    "messages": ("discards messages of", ""),
}


def confirm(plan: dict[str, Any], yes: bool, *, shown: bool = True) -> None:
    """Ask before a destructive plan is applied; ends the command if the answer is no.

    ``yes`` is the answer given beforehand; ``shown`` is true if the plan is on the screen already.  Raises
    :class:`click.ClickException` without a terminal.
    """
    destroyed = plan["destroys"]
    if yes or not destroyed:
        return
    effect = _effect(destroyed)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.ClickException(
            f"{plan['composition']}: this {effect}; no terminal to confirm it, so nothing was changed "
            "(use --yes to proceed without a question; speck plan or --dry-run shows the plan)"
        )
    for line in () if shown else render.plan_lines(plan):
        err.print(line)
    templates = {each["job"]: each.get("template") or "" for each in plan["actions"]}
    for name, each in folded_lines(destroyed, templates):
        err.print(f"  {name} {each['text']}", style="bold red", markup=False)
    if not click.confirm(f"This {effect}.  Continue?", err=True):
        err.print("nothing was changed")
        raise SystemExit(ERROR)


def _effect(destroyed: Iterable[dict[str, Any]]) -> str:
    """The destructive part of a plan as a predicate: ``permanently stops 2 jobs (a, b)``."""
    jobs: dict[str, list[str]] = {}
    for each in destroyed:
        jobs.setdefault(each["kind"], []).append(each["job"])
    return " and ".join(
        _predicate(*_EFFECTS[kind], list(dict.fromkeys(names))) for kind, names in jobs.items()
    )


def _predicate(verb: str, rest: str, names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    plural = "s" if len(names) > 1 else ""
    return f"{verb} {len(names)} job{plural}{rest} ({', '.join(names[:_NAMED])}{more})"
