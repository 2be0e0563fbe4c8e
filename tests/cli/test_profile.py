"""``speck profile``, ``GET`` and ``POST /profile``, ``GET /links``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests

from speck import cli
from speck.cli import profile
from speck.cli.history import TimeParameter
from speck.cli.options import Duration
from speck.coordinator import Services
from speck.core.inventory import Inventory
from testbed.benches.examples import one_site
from testbed.doubles.profiled_engines import Profiled
from testbed.doubles.samples import flink_stream
from testbed.doubles.world import World
from testbed.servers import rest as rest_module
from testbed.servers.rest import RestServer, rest_server, yaml_of
from tests.fixtures.speck_command import Speck

TWO = yaml_of("a t0 t1", "b t1 t2").encode()
LAST_SAMPLES = profile._LAST_SAMPLES


@pytest.fixture(autouse=True)
def at_once_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command does not wait."""
    monkeypatch.setattr(profile, "_LAST_SAMPLES", 0.0)
    monkeypatch.setattr(profile.time, "sleep", lambda seconds: None)


@pytest.fixture(autouse=True)
def quiet_fixture(rest: RestServer) -> None:
    """No engine is asked but by the test."""
    rest.coordinator.sampler.loop.start = lambda: None  # type: ignore[method-assign]


def report(services: Services, *names: str) -> None:
    """Let the engines of these jobs report the counts of the last minute."""
    for snapshot in services.coordinator.deployments.snapshots():
        for job, handle in snapshot.deployed():
            if job.job_name in names:
                for sample in flink_stream([100] * 6, 1e-3, begin=time.time() - 60):
                    services.profiles.measures.record(job, handle, sample)


def test_the_table_of_jobs_that_were_measured(rest: RestServer, speck: Speck) -> None:
    rest.client.apply(TWO, "demo", wait=30)
    report(rest.services, "a", "b")
    done = speck("profile", "demo")
    assert done.code == 0
    assert done.err == "measuring for 60 s\n"
    head, *rows = (line.split() for line in done.out.splitlines())
    assert " ".join(head) == (
        "JOB SITE IN/S OUT/S BYTES IN BYTES OUT COST US FIXED SELECTIVITY TRUE IN/S TRUE OUT/S STATE"
        " SOURCE AGE"
    )
    expected = "- 100 50 100 60 1000 0.009 0.5 1333 667 4096 measured"
    assert [" ".join(row[:-2]) for row in rows] == [f"a {expected}", f"b {expected}"]
    assert {row[-1] for row in rows} == {"s"}  # of an age


def test_a_job_that_could_not_be_measured_is_named(rest: RestServer, speck: Speck) -> None:
    rest.client.apply(TWO, "demo", wait=30)
    report(rest.services, "b")
    done = speck("profile", "--for", "30s")
    assert done.code == 1
    assert done.err.splitlines()[1:] == ["job 'a': not measured: too few samples yet"]


def test_the_last_sample_may_come_two_intervals_late(
    rest: RestServer, speck: Speck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first waits for a round of the sampler; the engine's times of four may be less than 30 s apart."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        if now < 30 + 2 * 10 <= now + seconds:
            report(rest.services, "a", "b")
        now += seconds

    monkeypatch.setattr(profile, "_LAST_SAMPLES", LAST_SAMPLES)
    monkeypatch.setattr(profile, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: now))
    rest.client.apply(TWO, "demo", wait=30)
    assert speck("profile", "--for", "30s").code == 0


def test_as_json(rest: RestServer, speck: Speck) -> None:
    rest.client.apply(TWO, "demo", wait=30)
    report(rest.services, "a", "b")
    done = speck("profile", "demo", "--json")
    assert done.code == 0
    first = done.data["jobs"][0]
    assert first["job_name"] == "a"
    assert first["cost"]["value"] == pytest.approx(1e-3)
    assert (first["cost"]["known"], first["cost"]["count"]) == ("measured", 7)
    assert [each["name"] for each in first["vertices"]] == ["source", "count"]
    assert first["vertices"][1]["true_rate_in"] == pytest.approx(1333, rel=0.01)


def test_only_the_jobs_of_one_composition(rest: RestServer, speck: Speck) -> None:
    rest.client.apply(TWO, "demo", wait=30)
    rest.client.apply(yaml_of("c x y").encode(), "other", wait=30)
    report(rest.services, "a", "b", "c")
    assert [each["job_name"] for each in speck("profile", "other", "--json").data["jobs"]] == ["c"]


def test_a_composition_that_is_not_there(rest: RestServer, speck: Speck) -> None:
    rest.client.apply(TWO, "demo", wait=30)
    done = speck("profile", "dem")
    assert done.code == 1
    assert "there is no composition 'dem' (did you mean 'demo'?)" in done.err


NO_TIMES = ("", "soon", "-1s", "nan", "60 kg", "1e9")


def test_a_time_that_is_none(speck: Speck) -> None:
    for text in NO_TIMES:
        done = speck("profile", "--for", text)
        assert done.code != 0
        assert f"{text!r} is not a time (expected, for example, 60s or '5 minutes')" in " ".join(
            done.err.split()
        )


def test_a_time_without_a_unit_is_in_seconds() -> None:
    duration = Duration(0.1, 7 * 86_400, "0.1 s to 7 days")
    given = ("90", "90.5", "0.5", "5min", "2 hours", "2d")
    assert [duration.convert(each, None, None) for each in given] == [90, 90.5, 0.5, 300, 7200, 172_800]
    ages = [time.time() - TimeParameter().convert(each, None, None) for each in given[3:]]
    assert ages == pytest.approx([300, 7200, 172_800], abs=5)


TIMES_OUT_OF_RANGE = ("29s", "25h", "0")


def test_a_time_that_is_too_short_or_too_long(speck: Speck) -> None:
    for text in TIMES_OUT_OF_RANGE:
        done = speck("profile", "--for", text)
        assert f"{text!r} is too short or too long (expected 30s to 24h)" in " ".join(done.err.split())


def test_links_and_sites_are_probed_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """These engines have no probe: each link and site is named."""
    sites = Inventory({name: one_site(name, f"sc://{name}:1", f"tcp://{name}:1883") for name in ("x", "y")})
    world = World()
    profiled = Profiled(time.time, lambda name, engine_id, now: flink_stream([], 1e-3)[0])
    monkeypatch.setattr(rest_module, "double_kinds", lambda world: profiled.registry(world))
    with rest_server(tmp_path / "probes", sites, world=world) as rest:
        rest.coordinator.sampler.loop.start = lambda: None  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "argv", ["speck", "--server", rest.url, "profile", "--links", "--sites"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 1
        printed = capsys.readouterr()
        assert printed.err.splitlines()[1:] == [
            "link x to y: not probed: the engine at sc://x:1 has no probe",
            "link y to x: not probed: the engine at sc://y:1 has no probe",
            "site x: not probed: the engine at sc://x:1 has no probe",
            "site y: not probed: the engine at sc://y:1 has no probe",
        ]
        lines = [line.split() for line in printed.out.splitlines()]
        assert ["x", "y", "40", "100", "-", "assumed", "-"] in lines
        assert ["x", "1", "-", "-", "assumed", "-"] in lines


def test_a_measurement_begins_at_once_and_its_end_is_told(rest: RestServer) -> None:
    rest.client.apply(TWO, "demo", wait=30)
    begun = time.time()
    answer = requests.post(f"{rest.url}/profile", params={"composition": "demo", "seconds": "90"}, timeout=30)
    assert answer.status_code == 202
    assert answer.json()["jobs"] == ["a", "b"]
    assert begun + 90 <= answer.json()["until"] <= time.time() + 90
    assert rest.services.profiles.measures.is_attended()


REFUSED_SECONDS = ("29", "86401", "nan", "inf", "-1", "soon")


def test_a_measurement_that_is_refused(rest: RestServer) -> None:
    for seconds in REFUSED_SECONDS:
        answer = requests.post(f"{rest.url}/profile", params={"seconds": seconds}, timeout=30)
        assert answer.status_code == 422
        assert not rest.services.profiles.measures.is_attended()


def test_jobs_without_samples_have_assumptions(rest: RestServer) -> None:
    rest.client.apply(TWO, "demo", wait=30)
    data = rest.client.profile("demo")
    assert [each["fresh"] for each in data["jobs"]] == [False, False]
    assert data["jobs"][0]["rate_in"] is None
    assert data["jobs"][0]["cost"] == {"value": 12e-6, "known": "assumed", "until": 0, "count": 0}
    assert rest.client.links() == []  # no inventory
