"""Load of the dashboard with many jobs: ``python -m benchmarks.dashboard [--json] [--jobs 500]``.

A real server over engines in memory, jobs in chains at 25 sites that feed a 26th, and the page in a real
Chromium.  ``first_graph_seconds`` is from the beginning of the navigation until every job is in the graph and
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
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome

from benchmarks.common import Figure
from speck.core.inventory import Inventory
from speck.core.runtime import JobState
from tests.support.chromium import Page, missing, start
from tests.support.examples import one_site
from tests.support.rest_server import RestServer, rest_server

SITES = 25
CHAIN = 4  # jobs one behind the other
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


def inventory() -> Inventory:
    """The sites, and the one that they feed."""
    names = [*(f"site-{number:02}" for number in range(SITES)), "cloud"]
    return Inventory({name: one_site(name, f"sc://{name}:15002", f"tcp://{name}:1883") for name in names})


def composition(jobs: int) -> str:
    """Chains of jobs, the last of each writing to the cloud."""
    written = []
    for number in range(jobs):
        site, depth, chain = number % SITES, number // SITES % CHAIN, number // SITES // CHAIN
        last = depth == CHAIN - 1
        fields = {
            "job_name": f"job-{number:03}",
            "site": f"site-{site:02}",
            "source_topic": f"step/{chain}/{depth}",
            "sink_topic": f"all/{site:02}" if last else f"step/{chain}/{depth + 1}",
            **({"sink_broker": "cloud"} if last else {}),
            "entry_class": "work",
            "job_path": "work.py",
        }
        written.append(fields)
    return json.dumps({"name": "many", "jobs": written})


def observe(rest: RestServer) -> None:
    """Have the engines asked, as a round of the loop does."""
    rest.coordinator.observer.observe(rest.coordinator.deployments.snapshots()[0].deployed())


def measure(chrome: Chrome, rest: RestServer, jobs: int, seconds: float, runs: int) -> dict[str, Any]:
    """All figures."""
    operation = rest.client.apply(composition(jobs).encode(), "many", wait=600)
    assert operation["state"] == "succeeded", operation["error"]
    observe(rest)
    page = Page(chrome, rest.url)
    chrome.set_script_timeout(120)
    chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _FRAMES})
    chrome.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    first, stalls, busy = [], [], []
    for _ in range(runs):
        page.open("dashboard/mark.svg")
        began = _busy(chrome)
        page.open()
        first.append(chrome.execute_async_script(_FIRST, jobs) / 1000)
        busy.append(_busy(chrome) - began)
        stalls.append(max(page.run("return window.frames")))
    page.run("window.frames.length = 0")
    cpu, delays = _changes(chrome, rest, jobs, seconds)
    frames = sorted(page.run("return window.frames"))
    return {
        "jobs": jobs,
        "sites": SITES + 1,
        **dict(Figure.of(first).named("first_graph_seconds")),
        **dict(Figure.of(busy).named("first_cpu_seconds")),
        **dict(Figure.of(stalls).named("first_frame_ms_worst")),
        **dict(Figure.of(delays).named("delay_seconds")),
        "frames": len(frames),
        **{f"frame_ms_p{part}": round(frames[len(frames) * part // 100], 1) for part in (50, 95, 99)},
        "frame_ms_worst": round(frames[-1], 1),
        "server_cpu_percent": round(cpu, 1),
    }


def _busy(chrome: Chrome) -> float:
    """The processor time of the page's thread so far, s."""
    metrics = chrome.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


def _changes(chrome: Chrome, rest: RestServer, jobs: int, seconds: float) -> tuple[float, list[float]]:
    """Jobs die and come back; processor time of this process, percent of a core, and how late it was seen."""
    chance = random.Random(7)
    delays = []
    began, used = time.monotonic(), time.process_time()
    while time.monotonic() - began < seconds:
        fallen = [f"job-{chance.randrange(jobs):03}" for _ in range(25)]
        for name in fallen:
            rest.world.crash(name, "it fell")
        died = time.time()
        observe(rest)
        delays.append(chrome.execute_async_script(_SEEN, fallen[0]) - died)
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
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if why := missing():
        raise SystemExit(why)
    with tempfile.TemporaryDirectory() as directory:
        chrome = start(Path(directory) / "chromium")
        try:
            with rest_server(Path(directory), inventory()) as rest:
                found = measure(chrome, rest, options.jobs, options.seconds, options.runs)
                chrome.get("about:blank")
        finally:
            chrome.quit()
    lines = [f"{name:28} {value}" for name, value in found.items()]
    print(json.dumps(found) if options.json else "\n".join(lines))


if __name__ == "__main__":
    main()
