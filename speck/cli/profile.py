"""The command that measures jobs, links and sites."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import click
from rich.table import Table

from speck.cli import render
from speck.cli.completion import composition_names
from speck.cli.options import ERROR, Duration, json_option
from speck.cli.output import show_data
from speck.cli.terminal import err
from speck.cli.waiting import waiting
from speck.client import Client

_LEAST, _MOST = 30.0, 86_400.0  # s
# s, for the last samples of jobs that are not measured yet: the first one may come an interval late, and the
# engine's times of them, which must be 30 s apart, may ask for one more.
_LAST_SAMPLES = 30.0
_SAMPLES = 3  # that make a rate
_PAUSE = 1.0  # s
_LEAST_INTERVAL = 10.0  # s between two samples, at which measuring is within its budget


@click.command()
@click.argument("composition", required=False, shell_complete=composition_names)
@click.option(
    "--for",
    "seconds",
    type=Duration(_LEAST, _MOST, "30s to 24h"),
    default="60s",
    show_default=True,
    metavar="TIME",
    help="Sampling time, at least 30s.",
)
@click.option("--links", is_flag=True, help="Probe the links between the sites: up to 4 MiB over each.")
@click.option("--sites", is_flag=True, help="Probe the speed of a core at each site.")
@json_option
@click.pass_obj
def profile(
    client: Client, composition: str | None, seconds: float, links: bool, sites: bool, as_json: bool
) -> None:
    """Measure the load of jobs: rates, bytes, CPU time, state.

    IN/S and OUT/S are messages/s, BYTES the size of a message with its topic, COST the CPU time (us) of
    a message, FIXED the cores that an idle job uses.  TRUE IN/S and TRUE OUT/S are the rates of a job
    that never waits.  SOURCE is the source of the rates, and of the cost if that differs.

    --links and --sites run short programs at the engines, one at a time, and show the links (round trip in
    ms, Mbit/s) and the sites (speed of a core against the reference core).

    Exits 1 if a job, link or site could not be measured.
    """
    name = composition or ""
    measurement = client.measure(name, seconds, links, sites)
    if not as_json:
        err.print(f"measuring for {seconds:g} s")
    with waiting("measuring the jobs"):
        time.sleep(seconds)
        data = _measured(client, name, measurement["jobs"], seconds)
    if links or sites:
        with waiting("measuring links and sites"):
            data = _probed(client, name)
    if links:
        data["links"] = client.links()
    show_data(data, _tables(data, links, sites), as_json)
    if data["interval"] > _LEAST_INTERVAL:
        share = f"{data['cores']:.2%} of a core"
        err.print(f"each job is sampled every {data['interval']:g} s, so measuring takes {share}")
    missing = _missing(data["jobs"], measurement["jobs"])
    missing += _without_result(data["probes"]) if links or sites else []
    for line in missing:
        err.print(line, markup=False, style="yellow")
    raise SystemExit(ERROR if missing else 0)


def _tables(data: dict[str, Any], links: bool, sites: bool) -> Iterator[Table]:
    yield render.profile_table(data["jobs"], data["observed"])
    if links:
        yield render.links_table(data["links"], data["observed"])
    if sites:
        yield render.site_profiles_table(data["sites"], data["observed"])


def _measured(client: Client, composition: str, jobs: Sequence[str], seconds: float) -> dict[str, Any]:
    """The profiles, requested again until the last samples have arrived.

    ``seconds`` have passed since the first sample.
    """
    begun = time.monotonic()
    while True:
        data = client.profile(composition)
        until = begun + max(_LAST_SAMPLES, _SAMPLES * data["interval"] - seconds)
        mine = [each for each in data["jobs"] if each["job_name"] in jobs]
        if all(each["fresh"] or each["error"] for each in mine) or time.monotonic() > until:
            return data
        time.sleep(_PAUSE)


def _probed(client: Client, composition: str) -> dict[str, Any]:
    """The profiles at the end of all probes, each of which ends in bounded time."""
    while True:
        data = client.profile(composition)
        if not any(each["state"] in ("waiting", "running") for each in data["probes"]):
            return data
        time.sleep(_PAUSE)


def _missing(jobs: Sequence[dict[str, Any]], measured: Sequence[str]) -> list[str]:
    """A line for each job without present rates, with the reason."""
    return [
        f"job {each['job_name']!r}: not measured: {each['error'] or 'too few samples yet'}"
        for each in jobs
        if each["job_name"] in measured and not each["fresh"]
    ]


def _without_result(probes: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each probe without a result, with the reason."""
    return [
        f"{_subject(each)}: not probed: {each['message']}"
        for each in probes
        if each["state"] in ("refused", "failed")
    ]


def _subject(probe: dict[str, Any]) -> str:
    return f"link {probe['site']} to {probe['target']}" if probe["target"] else f"site {probe['site']}"
