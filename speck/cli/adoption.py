"""The command that takes the running jobs of a lost store into this one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from speck.cli import render
from speck.cli.code import code_roots_option, local_code
from speck.cli.completion import composition_names
from speck.cli.options import CHANGES, ERROR, NOTHING_TO_DO, change_options, json_option
from speck.cli.output import show_data, warn
from speck.cli.progress import carry_out
from speck.cli.terminal import err
from speck.cli.variables import read_composition, values, variables_options
from speck.cli.waiting import waiting
from speck.client import Client


@click.command()
@click.argument("source", metavar="FILE_OR_COMPOSITION", shell_complete=composition_names)
@click.option("--job", "jobs", multiple=True, metavar="JOB", help="Adopt this job only (may be repeated).")
@click.option("--dry-run", is_flag=True, help="Only show the running copies; exits 2 if any can be adopted.")
@click.option(
    "-y", "--yes", is_flag=True, help="Confirm that the other store is permanently lost; do not ask."
)
@code_roots_option
@variables_options
@change_options
@json_option
@click.pass_obj
def adopt(
    client: Client,
    source: str,
    jobs: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    roots: tuple[Path, ...],
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
    why: dict[str, Any],
    as_json: bool,
) -> None:
    """Adopt the running jobs of a lost store.  Nothing is started, stopped or moved.

    FILE is the composition that the lost store applied last, or the name of one that this server has.
    Each copy continues with its session, state and stamps.  The other store must be permanently lost.
    """
    path = Path(source)
    text, name = b"", source
    if path.is_file():
        text, name = read_composition(path, values(env_files, settings, path)), path.stem
    with _code(client, text, path, roots) as code:
        with waiting("looking for running copies"):
            planned = client.adopt(text, name, code=code, job=list(jobs), dry_run="true")
        warn(planned["warnings"])
        if dry_run or not as_json:
            show_data(planned, render.adoption_lines(planned), as_json and dry_run)
        if dry_run or not (planned["adopts"] or planned["refuses"]):
            raise SystemExit(_exit_code(planned))
        _confirm(planned, yes)
        change = {**why, "job": list(jobs), "base_revision": planned["base_revision"]}
        carry_out(client, lambda: client.adopt(text, name, code=code, **change), as_json)


@contextmanager
def _code(client: Client, text: bytes, path: Path, roots: tuple[Path, ...]) -> Iterator[Mapping[str, str]]:
    """The hashes of the code of a file's jobs, which the server has; none without a file."""
    if not text:
        yield {}
        return
    with local_code(text, path, roots).sent(client) as code:
        yield code


def _exit_code(planned: Mapping[str, Any]) -> int:
    if planned["refuses"]:
        return ERROR
    return CHANGES if planned["adopts"] else NOTHING_TO_DO


def _confirm(planned: Mapping[str, Any], yes: bool) -> None:
    """Ask if the other stores are gone; raises :class:`click.ClickException` without a terminal."""
    if yes or planned["refuses"]:  # the server's refusal has the reasons
        return
    owners = ", ".join(sorted({each["owner"] for each in planned["adopts"]}))
    jobs = "1 job" if len(planned["adopts"]) == 1 else f"{len(planned['adopts'])} jobs"
    effect = f"{jobs} of store {owners} will belong to this one"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.ClickException(
            f"{planned['composition']}: {effect}; no terminal to confirm it, so nothing was changed "
            "(use --yes if that store is permanently lost; --dry-run shows the jobs)"
        )
    if not click.confirm(f"{effect}.  Is that store permanently lost?", err=True):
        err.print(Text("nothing was changed"))
        raise SystemExit(ERROR)
