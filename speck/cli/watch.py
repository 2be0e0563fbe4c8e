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
from speck.cli.progress import transient
from speck.cli.screen import Screen
from speck.cli.terminal import err, is_interactive, out
from speck.client import Client
from speck.errors import ServerError

_LAST_CHANGES = 12  # shown below the table

interval_option = click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two requests to the server.",
)


@dataclass
class Observation:
    """The jobs and operations as last observed, of one composition or of all.

    ``problem`` is the error of the last request (empty: none), ``since`` the time at which each running
    action was first observed; ``clock`` returns Unix time, s.
    """

    client: Client
    composition: str | None = None
    clock: Callable[[], float] = time.time
    jobs: dict[str, Any] = field(default_factory=dict)
    operations: dict[str, Any] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    problem: str = ""

    def update(self) -> list[dict[str, Any]]:
        """Observe again; returns the changes since the last observation."""
        now = self.clock()
        jobs = {each["job_name"]: each for each in self.client.jobs() if self._is_selected(each)}
        changes = [*self._operations(now), *render.job_changes(self.jobs, jobs, now)]
        self.jobs = jobs
        return changes

    def try_update(self) -> list[dict[str, Any]]:
        """Observe again; a transient error is noted as ``problem``."""
        try:
            changes = self.update()
        except ServerError as error:
            self.problem = transient(error)
            return []
        self.problem = ""
        return changes

    def _is_selected(self, job: dict[str, Any]) -> bool:
        return self.composition in (None, job["composition"])

    def _operations(self, now: float) -> Iterator[dict[str, Any]]:
        active = {
            each["operation"]
            for each in self.client.compositions()
            if each["operation"] and self.composition in (None, each["name"])
        }
        for identifier in [*self.operations, *sorted(active - self.operations.keys())]:
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
@click.option("--json", "as_json", is_flag=True, help="Print each change as one line of JSON.")
@click.pass_obj
def watch(client: Client, composition: str | None, interval: float, as_json: bool) -> None:
    """Watch running operations and jobs, until Ctrl-C.

    On a terminal, the table is redrawn; otherwise each change is printed as a line.
    """
    if composition is not None:
        client.composition(composition)  # raises for an unknown name
    observation = Observation(client, composition)
    try:
        if as_json or not is_interactive(out):
            _lines(observation, interval, as_json)
        else:
            _screen(observation, interval)
    except KeyboardInterrupt:
        return


def _poll(observation: Observation, interval: float) -> Iterator[list[dict[str, Any]]]:
    """The changes of each observation; the error of the first one is raised."""
    yield observation.update()
    while True:
        time.sleep(interval)
        yield observation.try_update()


def _lines(observation: Observation, interval: float, as_json: bool) -> None:
    printed = ""
    for changes in _poll(observation, interval):
        if observation.problem and not printed:
            err.print(f"{observation.problem}; retrying every {interval:g} s", style="yellow", markup=False)
        elif printed and not observation.problem:
            err.print("the server responds again", style="green")
        printed = observation.problem
        for change in changes:
            if as_json:
                click.echo(json.dumps(change))
            else:
                out.print(render.change_line(change))
        out.file.flush()


def _screen(observation: Observation, interval: float) -> None:
    last: list[dict[str, Any]] = []
    with Live(console=out, auto_refresh=False) as live:
        for number, changes in enumerate(_poll(observation, interval)):
            last = [*last, *(changes if number else ())][-_LAST_CHANGES:]
            live.update(view(observation, last), refresh=True)


def view(observation: Observation, last: Iterable[dict[str, Any]]) -> RenderableType:
    """The running operations, the jobs (those with a problem first), and the ``last`` changes."""
    parts: list[RenderableType] = []
    if observation.problem:
        parts.append(Text(observation.problem, style="yellow"))
    for operation in observation.operations.values():
        parts.append(render.operation_summary(operation))
        parts += render.running_lines(operation["actions"], observation.since, observation.clock())
    changes = [render.change_line(change) for change in last]
    jobs = render.problems_first(observation.jobs.values())
    return Screen(parts, jobs, render.watch_table, [Text(""), *changes] if changes else [])
