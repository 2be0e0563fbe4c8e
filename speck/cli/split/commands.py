"""The commands about splits by keys."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from speck.cli import render
from speck.cli.completion import split_names
from speck.cli.options import (
    default_sites,
    file_argument,
    file_path,
    inventory_option,
    json_option,
    roots_option,
)
from speck.cli.output import show_data
from speck.cli.split.step_file import StepFile
from speck.cli.validate import load
from speck.cli.variables import values, variables_options
from speck.cli.waiting import waiting
from speck.client import Client
from speck.core.split.metrics import transition


@click.group()
def split() -> None:
    """Show splits by key, and advise on them."""


@split.command(name="show")
@click.argument("name", required=False, shell_complete=split_names)
@json_option
@click.pass_obj
def show_split(client: Client, name: str | None, as_json: bool) -> None:
    """Show the split NAME with its jobs, or list all splits."""
    if name is None:
        splits = client.splits()
        show_data(splits, [render.splits_table(splits)], as_json)
    else:
        found = client.split(name)
        show_data(found, render.split_lines(found), as_json)


@split.command(name="advise")
@file_argument
@click.option("--job", "name", required=True, metavar="NAME", help="The job, with or without key_split.")
@click.option(
    "--sample",
    type=file_path,
    required=True,
    metavar="LINES",
    help="Sample of the messages that the job reads, one per line, plain or gzip; at most 100,000 are used.",
)
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Peak messages/s at the source.")
@inventory_option
@roots_option
@json_option
@variables_options
def advise_split(
    file: Path,
    name: str,
    sample: Path,
    rate: float | None,
    inventory: Path | None,
    roots: tuple[Path, ...],
    as_json: bool,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
) -> None:
    """Recommend whether and how to split a job, by measuring it on a sample of messages.

    No server, engine or broker is contacted: the class runs in a local Spark.
    """
    from speck.cli.split.advice import advice_for, job_to_split, sample_lines

    inventory = inventory or default_sites()
    given = values(env_files, settings, file, inventory)
    roots = (file.absolute().parent, *roots)
    job, part = job_to_split(load(file, inventory, roots, given).composition.jobs, name, file)
    lines = sample_lines(sample)
    with waiting("running the class on the sample"):
        found = advice_for(name, job, part, roots, lines, rate)
    show_data(found, render.split_advice_lines(found), as_json)


@split.command(name="record")
@click.argument("name", shell_complete=split_names)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Output file; steps are appended if it exists.",
)
@click.option(
    "--steps", type=click.IntRange(min=1), help="Number of steps to record [default: until interrupted]."
)
@json_option
@click.pass_obj
def record_split(client: Client, name: str, output: Path, steps: int | None, as_json: bool) -> None:
    """Record the measured work of the split NAME as training data.

    Each line is one step as a JSON object: obs, action, reward, next_obs.
    """
    count, slide = 0, client.split(name)["metrics_slide_seconds"]
    with (
        StepFile(output) as file,
        contextlib.suppress(KeyboardInterrupt),
        waiting(f"recording {name} (Ctrl-C to end)"),
    ):
        for before, after in _pairs(client, name, slide):
            file.append(transition(before, after))
            count += 1
            if count == steps:
                break
    show_data({"steps": count, "file": str(output)}, [f"{count} steps were added to {output}"], as_json)


def _pairs(client: Client, name: str, slide: float) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The windows of a split in turn, each with the one after it, as long as the split is there."""
    last: dict[str, Any] | None = None
    while True:
        for window in client.split_windows(name, last["end"] if last else 0.0):
            reported = any(window["workers"])
            if last is not None and reported and len(last["workers"]) == len(window["workers"]):
                yield last, window
            last = window
        time.sleep(slide / 2)
