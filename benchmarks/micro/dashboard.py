"""Load of the dashboard with many jobs: ``python -m benchmarks.dashboard [--json] [--jobs 500]``.

A real server over engines in memory, jobs in chains at 25 sites that feed a 26th, and the page in a real
Chromium.  More than 1,000 jobs are written with ``for_each``, ten at each site, and shown folded;
``plan_seconds`` is then the time until the client has the plan of the same text again.
``first_graph_seconds`` is from the beginning of the navigation until every job is in the graph and
a frame was drawn; until then ``first_frame_ms_worst`` is the longest time between two frames, and
``first_cpu_seconds`` the processor time of the page's own thread, which other work on the machine does not
lengthen.  Then jobs change their state some times a second; ``frame_ms`` are the times between two frames
meanwhile (16.7 at best), ``delay_seconds`` from a job's death to its mark in the graph, and
``server_cpu_percent`` is the processor time of the server's process, of one core.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome

from benchmarks.common import Figure
from speck.core.inventory import Inventory
from speck.core.runtime import JobState
from testbed.benches.examples import one_site
from testbed.results import add_output_options, published
from testbed.servers.chromium import Page, missing, start
from testbed.servers.rest import RestServer, rest_server
from testbed.termination import run

FEW = 1000  # jobs, up to which each is written and drawn separately
PERIOD = 0.5  # s between two changes

_FIRST = """
const done = arguments[1];
const look = () => document.querySelectorAll("[data-job]").length === arguments[0]
  ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look);
look();
"""
_FRAMES = """{
window.frames = [];
let last = performance.now();
const next = (at) => { window.frames.push(at - last); last = at; requestAnimationFrame(next); };
requestAnimationFrame(next);
}"""
_SEEN = """
const [name, done] = arguments;
const look = () => document.querySelector(`[data-job="${name}"].tone-bad`)
  ? done(Date.now() / 1000) : requestAnimationFrame(look);
look();
"""


@dataclass(frozen=True)
class Load:
    """Chains of jobs at some sites, the last of each writing to the cloud.

    ``chain`` is the number of jobs one behind the other; ``drawn`` are the jobs of the graph.
    """

    jobs: int

    @property
    def is_folded(self) -> bool:
        return self.jobs > FEW

    @property
    def chain(self) -> int:
        return 10 if self.is_folded else 4

    @property
    def sites(self) -> list[str]:
        return [f"site-{number:03}" for number in range(self.jobs // 10 if self.is_folded else 25)]

    @property
    def drawn(self) -> int:
        return self.chain if self.is_folded else self.jobs

    def inventory(self) -> Inventory:
        """The sites, and the one that they feed."""
        names = [*self.sites, "cloud"]
        return Inventory({name: one_site(name, f"sc://{name}:15002", f"tcp://{name}:1883") for name in names})

    def composition(self) -> str:
        """The composition, as JSON."""
        sites, chain = self.sites, self.chain
        if self.is_folded:
            each = {"for_each": {"site": sites}}
            steps = [self._job(0, depth, "${each.site}") | each for depth in range(chain)]
            return json.dumps({"name": "many", "jobs": steps})
        places = ((number % len(sites), number // len(sites)) for number in range(self.jobs))
        written = [
            self._job(place // chain, place % chain, sites[site]) | {"job_name": f"job-{number:03}"}
            for number, (site, place) in enumerate(places)
        ]
        return json.dumps({"name": "many", "jobs": written})

    def _job(self, chain: int, depth: int, site: str) -> dict[str, Any]:
        last = depth == self.chain - 1
        return {
            "job_name": f"step-{depth}-{site}",
            "site": site,
            "source_topic": f"step/{chain}/{depth}",
            "sink_topic": f"all/{site}" if last else f"step/{chain}/{depth + 1}",
            **({"sink_broker": "cloud"} if last else {}),
            "entry_class": "work",
            "job_path": "work.py",
        }

    def a_job(self, chance: random.Random) -> tuple[str, str]:
        """The name of some job, and that of its node in the graph."""
        if not self.is_folded:
            name = f"job-{chance.randrange(self.jobs):03}"
            return name, name
        depth = chance.randrange(self.chain)
        return f"step-{depth}-{chance.choice(self.sites)}", f"step-{depth}-*"


def observe(rest: RestServer) -> None:
    """Have the engines asked, as a round of the loop does."""
    rest.coordinator.observer.observe(rest.coordinator.deployments.snapshots()[0].deployed())


def measure(chrome: Chrome, rest: RestServer, load: Load, seconds: float, runs: int) -> dict[str, Any]:
    """All figures."""
    text = load.composition().encode()
    operation = rest.client.apply(text, "many", wait=1200)
    assert operation["state"] == "succeeded", operation["error"]
    observe(rest)
    plans = [_plan_seconds(rest, text) for _ in range(runs)]
    page = Page(chrome, rest.url)
    chrome.set_script_timeout(120)
    chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _FRAMES})
    chrome.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    first, stalls, busy = [], [], []
    for _ in range(runs):
        page.open("dashboard/mark.svg")
        began = _busy(chrome)
        page.open()
        first.append(chrome.execute_async_script(_FIRST, load.drawn) / 1000)
        busy.append(_busy(chrome) - began)
        stalls.append(max(page.run("return window.frames")))
    page.run("window.frames.length = 0")
    cpu, delays = _changes(chrome, rest, load, seconds)
    frames = sorted(page.run("return window.frames"))
    return {
        "jobs": load.jobs,
        "sites": len(load.sites) + 1,
        **dict(Figure.of(plans).named("plan_seconds")),
        **dict(Figure.of(first).named("first_graph_seconds")),
        **dict(Figure.of(busy).named("first_cpu_seconds")),
        **dict(Figure.of(stalls).named("first_frame_ms_worst")),
        **dict(Figure.of(delays).named("delay_seconds")),
        "frames": len(frames),
        **{f"frame_ms_p{part}": round(frames[len(frames) * part // 100], 1) for part in (50, 95, 99)},
        "frame_ms_worst": round(frames[-1], 1),
        "server_cpu_percent": round(cpu, 1),
    }


def _plan_seconds(rest: RestServer, text: bytes) -> float:
    began = time.perf_counter()
    plan = rest.client.plan(text, "many")
    assert not any(plan["counts"][kind] for kind in ("start", "stop", "update", "move"))
    return time.perf_counter() - began


def _busy(chrome: Chrome) -> float:
    """The processor time of the page's thread so far, s."""
    metrics = chrome.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


def _changes(chrome: Chrome, rest: RestServer, load: Load, seconds: float) -> tuple[float, list[float]]:
    """Jobs die and come back; processor time of this process, percent of a core, and how late it was seen."""
    chance = random.Random(7)
    delays = []
    began, used = time.monotonic(), time.process_time()
    while time.monotonic() - began < seconds:
        fallen = [load.a_job(chance) for _ in range(25)]
        for name, _ in fallen:
            rest.world.crash(name, "it fell")
        died = time.time()
        observe(rest)
        delays.append(chrome.execute_async_script(_SEEN, fallen[0][1]) - died)
        for engine in rest.world.engines.values():
            for running in engine.jobs.values():
                running.state = JobState.RUNNING
        observe(rest)
        time.sleep(PERIOD)
    return 100 * (time.process_time() - used) / (time.monotonic() - began), delays


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--runs", type=int, default=5)
    add_output_options(parser)
    options = parser.parse_args()
    if why := missing():
        raise SystemExit(why)
    load = Load(options.jobs)
    with tempfile.TemporaryDirectory() as directory:
        chrome = start(Path(directory) / "chromium")
        try:
            with rest_server(Path(directory), load.inventory()) as rest:
                found = measure(chrome, rest, load, options.seconds, options.runs)
                chrome.get("about:blank")
        finally:
            chrome.quit()
    lines = [f"{name:28} {value}" for name, value in found.items()]
    if not published(options, "dashboard", found):
        print("\n".join(lines))


if __name__ == "__main__":
    run(main)
