"""The command that runs the demo (:mod:`speck.cli.demo`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from speck.cli.options import json_option

# The kinds of speck.cli.demo, which takes a while to import, as options of which one may be given.
_KINDS = ("mixed", "kafka", "place", "adapt", "hot", "fences", "alone")

_readable = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--data", type=_readable, help="CityPulse readings, plain or gzip [default: a generated day].")
@click.option("--sensors", type=_readable, help="CSV of sensors with the site of each.")
@click.option("--limit", type=click.IntRange(1), help="Only the first N readings.")
@click.option(
    "--rate",
    type=click.FloatRange(0),
    help="Readings/s; 0: as fast as possible [default: 1500, 0 with --data; some scenarios differ].",
)
@click.option(
    "--speedup",
    type=click.FloatRange(0),
    default=0.0,
    help="Speed-up over the recorded times; 0: unlimited.",
)
@click.option(
    "--malformed",
    type=click.FloatRange(0, 0.9),
    help="Share of malformed lines to mix in [default: 0.02, with --place 0.5].",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of random numbers.")
@click.option("--mixed", is_flag=True, help="Sites on Spark Connect, Spark standalone and Flink.")
@click.option("--kafka", is_flag=True, help="The cloud's broker is Kafka; the other sites keep MQTT.")
@click.option(
    "--place", is_flag=True, help="Start all jobs in the cloud, then move them as `speck advise` recommends."
)
@click.option(
    "--adapt",
    is_flag=True,
    help="Sites on Flink in a wide area network; a link degrades, and SpecK moves jobs automatically.",
)
@click.option(
    "--hot",
    is_flag=True,
    help="Percentiles by town, split over the sites: by hash, and after an edit by balanced.",
)
@click.option(
    "--fences",
    is_flag=True,
    help="Geofencing: 500 movers and 400 fences; two jobs move with their state while data flows.",
)
@click.option(
    "--alone",
    is_flag=True,
    help="A site loses power while the server is stopped; its agent starts its jobs again.",
)
@click.option(
    "--measure",
    type=click.FloatRange(30, 3600),
    default=60.0,
    show_default=True,
    help="Time for measuring the jobs, s (--place).",
)
@click.option("--keep", is_flag=True, help="Leave everything running, and print the addresses.")
@json_option
def demo(**options: Any) -> None:
    """Run the demo: road traffic over four sites.

    Deploys 17 jobs, applies an edited file while data flows, and verifies that each vehicle is counted once.
    """
    from speck.cli.demo import DemoOptions, run_demo

    _refuse_combinations(options)
    if options["adapt"] and os.geteuid() != 0:
        _begin_in_own_namespaces()
    kind = next((name for name in _KINDS if options[name]), "")
    others = {name: value for name, value in options.items() if name not in _KINDS}
    raise SystemExit(run_demo(DemoOptions(kind=kind, **others)))


def _refuse_combinations(options: Mapping[str, Any]) -> None:
    """Raise a usage error for options that exclude each other."""
    if sum(options[name] for name in _KINDS) > 1:
        names = [f"--{name}" for name in _KINDS]
        raise click.UsageError(f"{', '.join(names[:-1])} and {names[-1]} exclude each other.")
    if options["fences"]:
        for name in ("data", "sensors", "limit", "speedup", "malformed"):
            if options[name]:
                raise click.UsageError(
                    f"--{name} cannot be combined with --fences, which generates its data."
                )
    if options["hot"] and options["malformed"] is not None:
        raise click.UsageError(
            "--malformed cannot be combined with --hot, which sends only well-formed lines."
        )


def _begin_in_own_namespaces() -> None:
    """Run the same command again in new namespaces, where it may create a network."""
    from speck.local.wan import in_own_namespaces

    same = [sys.executable, "-m", "speck.cli", *sys.argv[1:]]
    command, environment = in_own_namespaces(same, os.environ)
    os.execvpe(command[0], command, environment)  # noqa: S606 - no shell is meant
