"""The command that shows what a job's engine has of it in its logs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import click

from speck.cli.completion import job_argument
from speck.cli.options import err, json_option, show_json
from speck.cli.progress import passing
from speck.cli.watch import interval_option
from speck.client import Client
from speck.errors import ServerError

_FOLLOWED = 1000  # lines that are asked for each time; what comes between two times must be fewer


@click.command()
@job_argument
@click.option(
    "-n",
    "--tail",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    metavar="LINES",
    help="How many lines, the last ones.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@interval_option
@json_option
@click.pass_obj
def logs(client: Client, job: str, tail: int, follow: bool, interval: float, as_json: bool) -> None:
    """Show the last lines that a job's engine has of it.

    Where they come from, and what cannot be had, is said first (on standard error).
    """
    answer = client.log(job, tail)
    if as_json:
        show_json(answer)
        return
    err.print(f"{answer['address']}: {answer['about']}", style="dim", markup=False)
    try:
        _print(answer["lines"])
        if follow:
            for lines in _news(client, job, answer["lines"], interval):
                _print(lines)
    except KeyboardInterrupt:
        return


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(line)


def _news(client: Client, job: str, seen: list[str], interval: float) -> Iterator[list[str]]:
    known, told = seen, ""
    while True:
        time.sleep(interval)
        try:
            lines: list[str] = client.log(job, _FOLLOWED)["lines"]
        except ServerError as error:
            trouble = passing(error)
            if not told:
                err.print(f"{trouble}; asking again every {interval:g} s", style="yellow", markup=False)
            told = trouble
            continue
        if told:
            err.print("the log is told again", style="green")
        told = ""
        yield new_lines(known, lines)
        known = lines


def new_lines(known: Sequence[str], lines: Sequence[str]) -> list[str]:
    """The lines that came since the former answer: of what comes first in this one, and was left out there
    only because that one was shorter, none."""
    matched = SequenceMatcher(None, known, lines, autojunk=False)
    changes = [each for each in matched.get_opcodes() if each[0] in ("insert", "replace")]
    older = bool(known) and bool(changes) and changes[0][1] == 0 and changes[0][0] == "insert"
    return [line for each in changes[older:] for line in lines[each[3] : each[4]]]
