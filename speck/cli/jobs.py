"""The commands that show jobs and the graph of a composition."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from speck.cli import render
from speck.cli.completion import job_argument
from speck.cli.options import (
    default_sites,
    file_argument,
    inventory_option,
    json_option,
    show_data,
    show_json,
    unfold_option,
)
from speck.cli.terminal import out
from speck.cli.variables import read_composition, values, variables_options
from speck.client import Client
from speck.core.graph import Graph
from speck.core.inventory import Inventory
from speck.core.job import Job


@click.command()
@unfold_option
@json_option
@click.pass_obj
def jobs(client: Client, unfold: bool, as_json: bool) -> None:
    """List the jobs: the desired state, and the last observed one.

    The jobs that one entry with for_each made are one line, followed by those of them to look at.
    A terminal shows the beginning of a long message; `speck show JOB` has all of it.
    """
    data = client.jobs()
    rows = data if unfold else render.folded_jobs(data)
    show_data(data, [render.jobs_table(rows, whole=not out.is_terminal)], as_json)


@click.command()
@job_argument
@json_option
@click.pass_obj
def show(client: Client, job: str, as_json: bool) -> None:
    """Show one job in full, as its engine reports it now, in words and rounded; exactly with --json."""
    data = client.job(job)
    show_data(data, render.facts(data), as_json)


@click.command()
@file_argument
@variables_options
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an .svg or .png file (needs speck[graph]).",
)
@inventory_option
@unfold_option
@json_option
def graph(
    file: Path,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
    output: Path | None,
    inventory: Path | None,
    unfold: bool,
    as_json: bool,
) -> None:
    """Draw a composition's graph by site, as text or as a picture.

    The jobs that one entry with for_each makes are drawn as one.
    """
    from speck.binder import installed
    from speck.cli.draw import declared_text, draw_image, draw_text, folded
    from speck.schema.compositions import load_composition
    from speck.schema.inventory import read_inventory

    path = inventory or default_sites()
    variables = values(env_files, settings, file, path)
    sites = read_inventory(path, variables) if path else Inventory()
    text = read_composition(file, variables)
    roots = (file.absolute().parent, Path())
    loaded = load_composition(text, inventory=sites, registry=installed(), root=roots, default_name=file.stem)
    jobs = loaded.composition.jobs.values()
    drawn = jobs if unfold else folded(jobs)
    if output is not None:
        draw_image(drawn, sites, output, loaded.composition.declared)
    if as_json:
        show_json(_graph_data(jobs))
    elif output is None:
        texts = (draw_text(drawn, sites), declared_text(loaded.composition.declared))
        click.echo("\n\n".join(filter(None, texts)))


def _graph_data(jobs: Iterable[Job]) -> list[dict[str, Any]]:
    """Each job with its readers, writers before their readers."""
    graph = Graph.of(jobs)
    return [
        graph.jobs[name].to_dict() | {"feeds": graph.readers_of(graph.jobs[name])} for name in graph.order()
    ]
