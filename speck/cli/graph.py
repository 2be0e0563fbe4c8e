"""The command that draws graphs: of a composition, and of the plan by which an engine executes a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from speck.cli import render
from speck.cli.completion import job_names
from speck.cli.options import (
    ERROR,
    default_sites,
    file_path,
    inventory_option,
    json_option,
    unfold_option,
)
from speck.cli.output import show_data, show_json
from speck.cli.terminal import err
from speck.cli.variables import read_composition, values, variables_options
from speck.cli.waiting import waiting
from speck.client import Client, RequestRefused
from speck.core.engine_plan import EnginePlan
from speck.core.graph import Graph
from speck.core.inventory import Inventory
from speck.core.job import Job

_PLAN_FORMATS, _FEATURE_FORMATS = ("json", "graphml", "dot"), ("json", "csv")


@click.command()
@click.argument("names", nargs=-1, metavar="FILE", type=click.Path())
@variables_options
@click.option(
    "--engine", "job", metavar="JOB", shell_complete=job_names, help="Draw this job's plan at its engine."
)
@click.option("--features", is_flag=True, help="Print features of the plans of all jobs, or those named.")
@click.option(
    "--format",
    "form",
    type=click.Choice(tuple(dict.fromkeys(_PLAN_FORMATS + _FEATURE_FORMATS))),
    help="With --engine: json, graphml or dot. With --features: json or csv.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an .svg or .png file (needs speck[graph]).",
)
@inventory_option
@unfold_option
@json_option
@click.pass_obj
def graph(
    client: Client,
    /,
    names: tuple[str, ...],
    job: str | None,
    features: bool,
    form: str | None,
    output: Path | None,
    as_json: bool,
    **of_file: Any,
) -> None:
    """Draw a composition's graph by site, as text or as a picture.

    The jobs of one for_each entry are drawn as one.

    With --engine JOB, draws the execution plan of a running job at its engine: operators with their
    classes, task by task; edges between tasks show how rows are distributed, in brackets.

    With --features [JOB]..., prints a row of features for each job, for learned cost models; --json adds
    their units.  Exits 1 if a job has no plan.
    """
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} exclude each other")
    form = "json" if as_json else form
    if job is not None and features:
        raise click.UsageError("--engine and --features exclude each other (--features JOB has a single job)")
    if features:
        _refuse_file_options("--features", of_file)
        _show_features(client, names, form, output)
    elif job is not None:
        _refuse_file_options("--engine", of_file)
        _show_plan(client, job, names, form, output)
    else:
        if form is not None and not as_json:
            raise click.UsageError("--format is for --engine and --features (expected --json for a file)")
        _show_composition(_one_file(names), output, as_json=as_json, **of_file)


def _refuse_file_options(option: str, of_file: Mapping[str, Any]) -> None:
    """Raise a usage error for an option of a file beside this one."""
    options = {"env_files": "--env", "settings": "--set", "inventory": "--sites", "unfold": "--unfold"}
    if given := [options[name] for name, value in of_file.items() if value]:
        raise click.UsageError(f"{given[0]} is for a FILE, not for {option}")


def _check_format(option: str, form: str | None, formats: tuple[str, ...]) -> None:
    if form not in (None, *formats):
        raise click.UsageError(f"{option} has no format {form} (expected {', '.join(formats)})")


def _one_file(names: tuple[str, ...]) -> Path:
    if len(names) != 1:
        given = f"{len(names)} were given" if names else "none was given"
        raise click.UsageError(f"expected one FILE, --engine JOB or --features: {given}")
    path: Path = file_path.convert(names[0], None, click.get_current_context())
    return path


def _show_plan(
    client: Client, job: str, names: tuple[str, ...], form: str | None, output: Path | None
) -> None:
    from speck.cli.draw.engine_plan import dot, draw_plan, graphml, plan_text

    if names:
        raise click.UsageError(f"--engine {job} takes no file ({names[0]!r} was given)")
    _check_format("--engine", form, _PLAN_FORMATS)
    if output is not None and form is not None:
        raise click.UsageError(f"--output draws a picture: --format {form} goes to standard output")
    with waiting("asking the engine"):
        answer = client.engine_plan(job)
    plan = EnginePlan.from_dict(answer)
    if form is None:
        for note in plan.notes:
            err.print(note, style="yellow", markup=False)
    if form == "json":
        show_json(answer)
    elif form is not None:
        click.echo(dot(plan) if form == "dot" else graphml(plan))
    elif output is not None:
        draw_plan(plan, output)
    else:
        err.print(f"{answer['address']}: attempt {answer['attempt']} of {job}", style="dim", markup=False)
        click.echo(plan_text(plan))


def _show_features(client: Client, names: tuple[str, ...], form: str | None, output: Path | None) -> None:
    _check_format("--features", form, _FEATURE_FORMATS)
    if output is not None:
        raise click.UsageError("--output draws a graph: --features prints a table (--format csv)")
    plans, faults = [], []
    with waiting("asking the engines"):
        for name in names or [str(each["job_name"]) for each in client.jobs()]:
            try:
                plans.append(client.engine_plan(name))
            except RequestRefused as error:
                faults.append({"job_name": name, "error": str(error)})
    if form == "csv":
        click.echo(render.features_csv(plans), nl=False)
    else:
        data = render.features_data(plans, faults)
        show_data(data, [render.features_table(plans)], form == "json")
    for fault in faults:
        err.print(
            f"job {fault['job_name']!r} has no features: {fault['error']}", style="yellow", markup=False
        )
    if faults:
        raise SystemExit(ERROR)


def _show_composition(
    file: Path,
    output: Path | None,
    *,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
    inventory: Path | None,
    unfold: bool,
    as_json: bool,
) -> None:
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
        with waiting(f"drawing {output}"):
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
