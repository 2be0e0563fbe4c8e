"""The commands about splits by keys."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from speck.cli import render
from speck.cli.completion import split_names
from speck.cli.options import json_option, show_data
from speck.cli.terminal import err
from speck.client import Client
from speck.core.split_metrics import transition


@click.group()
def split() -> None:
    """Show splits by keys."""


@split.command(name="show")
@click.argument("name", required=False, shell_complete=split_names)
@json_option
@click.pass_obj
def show_split(client: Client, name: str | None, as_json: bool) -> None:
    """Show the split NAME with its jobs, by default all splits."""
    if name is None:
        splits = client.splits()
        show_data(splits, [render.splits_table(splits)], as_json)
    else:
        found = client.split(name)
        show_data(found, render.split_lines(found), as_json)


@split.command(name="record")
@click.argument("name", shell_complete=split_names)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file; steps are added to one that is there.",
)
@click.option(
    "--steps", type=click.IntRange(min=1), help="End after so many steps  [default: at an interrupt]."
)
@click.pass_obj
def record_split(client: Client, name: str, output: Path, steps: int | None) -> None:
    """Record the measured work of the split NAME as training data.

    Each line is a step, a JSON object: obs, action, reward, next_obs.
    """
    count = 0
    with output.open("a", encoding="utf-8") as file, contextlib.suppress(KeyboardInterrupt):
        for before, after in _pairs(client, name):
            file.write(json.dumps(transition(before, after)) + "\n")
            file.flush()
            count += 1
            if count == steps:
                break
    err.print(f"{count} steps are in {output}", soft_wrap=True, highlight=False)


def _pairs(client: Client, name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The windows of a split in turn, each with the one after it, as long as the split is there."""
    slide = client.split(name)["metrics_slide_seconds"]
    last: dict[str, Any] | None = None
    while True:
        for window in client.split_windows(name, last["end"] if last else 0.0):
            reported = any(window["workers"])
            if last is not None and reported and len(last["workers"]) == len(window["workers"]):
                yield last, window
            last = window
        time.sleep(slide / 2)
