"""The demo of agents: a site loses power while the server is stopped, and runs again without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from speck import local
from speck.agent.status import status
from speck.cli.demo.stages import Demo, Scenario, in_the_cloud
from speck.client import Client
from speck.errors import SpeckError

RATE = 1000.0  # lines/s: data flows for a minute
DARK = 6.0  # s without power
_SITE, _SENSORS = "A", "B"  # the site that loses power, and the one to whose broker its sensors report
_FLOWING = 8.0  # s of data before the loss
_CONTACT = 60.0  # s, for agents and jobs to be seen
_BACK = 120.0  # s, for the jobs to run again
_ASKED = 1.0  # s between two requests


class AloneDemo(Demo):
    """The agent of site A starts its jobs again; the server returns when everything is counted."""

    _scenario = Scenario(
        "road_traffic_alone.yaml",
        "road_traffic_alone.yaml",
        dict.fromkeys("ABCD", ("flink-small",)),
        agents=True,
    )
    _reached = True  # the server runs

    def _inputs(self) -> Mapping[str, str]:
        # A broker may lose a line that it acknowledged and had not saved, and a sensor keeps none.
        return {**self._brokers, _SITE: self._brokers[_SENSORS]}

    def _statistics(self) -> Mapping[str, str]:
        return in_the_cloud(self._brokers)

    def _default_rate(self) -> float:
        return RATE

    def _deploy(self) -> None:
        self._await_agents()
        super()._deploy()
        self._before = self._attempts()

    def _feed_and_edit(self) -> None:
        self._view.phase("Data flows")
        self._fed = time.monotonic()
        with self._view:
            routes = [f"--topic={_SITE}/{number}=sensors-{_SITE.lower()}/{number}" for number in (1, 2)]
            self._feed("feeder", 1.0, *routes)
            self._until("data flows", self._counted_for(_FLOWING))
            self._lose_power()
            self._until(f"{_SITE} has no power, and the server is stopped", self._after(DARK))
            self._restore_power()
            self._until("the last lines are sent; the server is stopped", self._all_sent)

    def _lose_power(self) -> None:
        self._view.phase(f"The server is killed, and site {_SITE} loses power")
        self._reached = False
        self._server.kill()
        self._view.line(f"process {self._server.process.pid}: the server, by SIGKILL")
        for each in local.lose_power(self._sites.directory, _SITE):
            self._view.line(f"process {each.pid}: {each}, by SIGKILL")

    def _restore_power(self) -> None:
        self._view.phase(
            f"Site {_SITE} has power: its engine, its broker and its agent start; no server runs"
        )
        begun, counted = time.monotonic(), self._counted()
        restored: set[str] = set()
        with ThreadPoolExecutor(1) as starting:
            started = starting.submit(
                local.restore_power,
                self._sites.directory,
                _SITE,
                progress=self._view.line,
            )
            self._until(f"{_SITE} starts", started.done)
            started.result()
        self._until(
            f"the agent of {_SITE} starts its jobs again", lambda: self._show_restored(restored, begun)
        )
        self._counts.seconds["alone"] = round(time.monotonic() - begun, 2)
        self._until(
            f"{_SITE} processes what waited for it",
            lambda: self._counted() > counted or self._all_sent(),
        )

    def _show_restored(self, restored: set[str], begun: float) -> bool:
        """Print the jobs that run again since the last look; True when all of the site do."""
        seconds = time.monotonic() - begun
        if seconds > _BACK:
            raise SpeckError(f"the jobs of site {_SITE} do not run {_BACK:g} s after power was back")
        attempts = status(self._sites.directory / _SITE / "agent")["attempts"]
        for each in attempts:
            if each["phase"] == "running" and each["starts"] > 1 and each["job_name"] not in restored:
                restored.add(each["job_name"])
                self._view.line(
                    f"job {each['job_name']} runs again, {seconds:.1f} s after power was back "
                    f"(attempt {each['attempt']}, start {each['starts']})"
                )
        return len(restored) == len(attempts)

    def _running_jobs(self) -> int:
        """Start the server again; the jobs must be those from before."""
        self._server = self._start_server("The server starts again")
        self._client = Client(self._url)
        self._reached = True
        self._await_agents()
        states: dict[str, str] = {}

        def running() -> bool:
            states.update((job["job_name"], job["state"]) for job in self._client.jobs())
            return set(states.values()) == {"running"}

        self._await("all jobs run", running)
        after = self._attempts()
        if other := [job for job, attempt in self._before.items() if after.get(job) != attempt]:
            raise SpeckError(f"jobs were started by the server: {', '.join(other)}")
        self._view.line(f"{len(after)} jobs run, in the attempts from before", "green")
        return super()._running_jobs()

    # --- conditions

    def _await_agents(self) -> None:
        """Wait until the agents of all sites are connected."""
        missing: list[str] = []

        def connected() -> bool:
            missing[:] = [each["name"] for each in self._client.sites() if not each["agent"]["connected"]]
            return not missing

        self._await("all agents are connected", connected)
        self._view.line("all agents are connected")

    def _await(self, title: str, reached: Callable[[], bool]) -> None:
        end = time.monotonic() + _CONTACT
        while not reached():
            self._check_server()
            if time.monotonic() > end:
                raise SpeckError(f"not within {_CONTACT:g} s: {title}")
            time.sleep(_ASKED)

    def _check_server(self) -> None:
        if self._reached:
            super()._check_server()

    def _counted(self) -> int:
        """The readings of the site that were counted."""
        found: Mapping[str, Any] = self._watcher.totals.get("sites", {}).get(_SITE, {})
        return int(found.get("readings", 0))

    def _counted_for(self, seconds: float) -> Callable[[], bool]:
        end = self._after(seconds)
        return lambda: bool(self._counted() and end()) or self._all_sent()

    def _after(self, seconds: float) -> Callable[[], bool]:
        end = time.monotonic() + seconds
        return lambda: time.monotonic() > end
