"""The command that shows operations and jobs as they change."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import click
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from speck.cli import render
from speck.cli.completion import composition_names
from speck.cli.options import err, out
from speck.cli.progress import passing
from speck.cli.screen import Screen
from speck.cli.terminal import moves
from speck.client import Client
from speck.errors import ServerError

_LAST_CHANGES = 12  # shown below the table

interval_option = click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks.",
)


@dataclass
class Watched:
    """What was seen last, of one composition or of all; ``clock`` tells Unix time, s.

    ``trouble`` is why the last look was in vain (empty: it was not), ``since`` when each action at work was
    first seen to be.
    """

    client: Client
    composition: str | None = None
    clock: Callable[[], float] = time.time
    jobs: dict[str, Any] = field(default_factory=dict)
    operations: dict[str, Any] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    trouble: str = ""

    def look(self) -> list[dict[str, Any]]:
        """Look once more; answers what changed since the last look."""
        now = self.clock()
        seen = {each["job_name"]: each for each in self.client.jobs() if self._is_wanted(each)}
        changes = [*self._operations(now), *render.job_changes(self.jobs, seen, now)]
        self.jobs = seen
        return changes

    def look_again(self) -> list[dict[str, Any]]:
        """Look once more, at a server that may have gone: that is noted as ``trouble``."""
        try:
            changes = self.look()
        except ServerError as error:
            self.trouble = passing(error)
            return []
        self.trouble = ""
        return changes

    def _is_wanted(self, job: dict[str, Any]) -> bool:
        return self.composition in (None, job["composition"])

    def _operations(self, now: float) -> Iterator[dict[str, Any]]:
        at_work = {
            each["operation"]
            for each in self.client.compositions()
            if each["operation"] and self.composition in (None, each["name"])
        }
        for identifier in [*self.operations, *sorted(at_work - self.operations.keys())]:
            operation = self.client.operation(identifier)
            yield from render.operation_changes(self.operations.get(identifier), operation, now)
            self.operations[identifier] = operation
        self.operations = {key: each for key, each in self.operations.items() if each["state"] == "running"}
        running = [
            action["job"]
            for each in self.operations.values()
            for action in each["actions"]
            if action["state"] == "running"
        ]
        self.since = {job: self.since.get(job, now) for job in running}


@click.command()
@click.argument("composition", required=False, shell_complete=composition_names)
@interval_option
@click.option("--json", "as_json", is_flag=True, help="Print each change as a line of JSON.")
@click.pass_obj
def watch(client: Client, composition: str | None, interval: float, as_json: bool) -> None:
    """Show the operations at work and the jobs as they change, until Ctrl-C.

    On a terminal the table is drawn again and again; elsewhere each change is a line.
    """
    if composition is not None:
        client.composition(composition)  # a name that is mistyped is told at once
    watched = Watched(client, composition)
    try:
        if as_json or not moves(out):
            _lines(watched, interval, as_json)
        else:
            _screen(watched, interval)
    except KeyboardInterrupt:
        return


def _looks(watched: Watched, interval: float) -> Iterator[list[dict[str, Any]]]:
    """The changes of one look after the other; the first one must not be in vain."""
    yield watched.look()
    while True:
        time.sleep(interval)
        yield watched.look_again()


def _lines(watched: Watched, interval: float, as_json: bool) -> None:
    told = ""
    for changes in _looks(watched, interval):
        if watched.trouble and not told:
            err.print(f"{watched.trouble}; looking again every {interval:g} s", style="yellow", markup=False)
        elif told and not watched.trouble:
            err.print("the server answers again", style="green")
        told = watched.trouble
        for change in changes:
            if as_json:
                click.echo(json.dumps(change))
            else:
                out.print(render.change_line(change))
        out.file.flush()


def _screen(watched: Watched, interval: float) -> None:
    last: list[dict[str, Any]] = []
    with Live(console=out, auto_refresh=False) as live:
        for number, changes in enumerate(_looks(watched, interval)):
            last = [*last, *(changes if number else ())][-_LAST_CHANGES:]
            live.update(picture(watched, last), refresh=True)


def picture(watched: Watched, last: Iterable[dict[str, Any]]) -> RenderableType:
    """The operations at work, the jobs, those first that want a look, and what changed ``last``."""
    parts: list[RenderableType] = []
    if watched.trouble:
        parts.append(Text(watched.trouble, style="yellow"))
    for operation in watched.operations.values():
        parts.append(render.operation_summary(operation))
        parts += render.running_lines(operation["actions"], watched.since, watched.clock())
    changes = [render.change_line(change) for change in last]
    jobs = render.troubled_first(watched.jobs.values())
    return Screen(parts, jobs, render.scene_table, [Text(""), *changes] if changes else [])
