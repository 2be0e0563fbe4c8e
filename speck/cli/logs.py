"""The command that shows a job's log lines."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import click

from speck.cli.completion import job_argument
from speck.cli.options import json_option
from speck.cli.output import show_json
from speck.cli.progress import transient
from speck.cli.terminal import err
from speck.cli.waiting import waiting
from speck.cli.watch import interval_option
from speck.client import Client
from speck.errors import ServerError

_FOLLOWED = 1000  # lines of each request; between two requests there must be fewer new ones


@click.command()
@job_argument
@click.option(
    "-n",
    "--tail",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    metavar="LINES",
    help="Number of most recent lines.",
)
@click.option("-f", "--follow", is_flag=True, help="Print new lines until Ctrl-C.")
@interval_option
@json_option
@click.pass_obj
def logs(client: Client, job: str, tail: int, follow: bool, interval: float, as_json: bool) -> None:
    """Show the last log lines of a job at its engine.

    The source of the lines, and any lines that the engine does not provide, are reported first (on
    standard error).
    """
    with waiting("asking the engine"):
        answer = client.log(job, tail)
    if as_json:
        show_json(answer)
        return
    err.print(f"{answer['address']}: {answer['about']}", style="dim", markup=False)
    try:
        _print(answer["lines"])
        if follow:
            for lines in _follow(client, job, answer["lines"], interval):
                _print(lines)
    except KeyboardInterrupt:
        return


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(line)


def _follow(client: Client, job: str, seen: list[str], interval: float) -> Iterator[list[str]]:
    known, problem = seen, ""
    while True:
        time.sleep(interval)
        try:
            lines: list[str] = client.log(job, _FOLLOWED)["lines"]
        except ServerError as error:
            text = transient(error)
            if not problem:
                err.print(f"{text}; retrying every {interval:g} s", style="yellow", markup=False)
            problem = text
            continue
        if problem:
            err.print("the log is available again", style="green")
        problem = ""
        yield new_lines(known, lines)
        known = lines


def new_lines(known: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The lines added since the previous answer.

    Lines at the beginning that were missing there only because that answer was shorter do not count.
    """
    matched = SequenceMatcher(None, known, lines, autojunk=False)
    changes = [each for each in matched.get_opcodes() if each[0] in ("insert", "replace")]
    older = bool(known) and bool(changes) and changes[0][1] == 0 and changes[0][0] == "insert"
    return [line for each in changes[older:] for line in lines[each[3] : each[4]]]
