"""The demo as a whole, on real engines and brokers, and its report of counts that do not agree."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest
from click import Option
from click.testing import CliRunner
from rich.console import Console

from binders.flink.local.small import JAR as SMALL_FLINK
from speck.agent.attempt_files import AttemptFiles
from speck.agent.run_state import Phase, accepted
from speck.agent.site_file import SiteFile, write_site_file
from speck.cli.demo import KINDS, Counts, DemoOptions, adapted, fences, hot, run_demo
from speck.cli.demo.alone import AloneDemo
from speck.cli.demo.fences import FenceCounts, FencesView, counts_table
from speck.cli.demo.hot import HotCounts, HotView, imbalance, loads_table
from speck.cli.demo.stages import INTERRUPTED, Demo
from speck.cli.demo.view import View, statistics_table
from speck.cli.demo_command import demo
from speck.core.inventory import Secret
from speck.core.runtime import Attempt, Handle
from speck.errors import LocalError, SpeckError
from speck.local import LocalSites
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches.decisions import STEP, STEPPED
from testbed.benches.examples import job, one_site
from testbed.servers.mosquitto import PROGRAM as MOSQUITTO
from tests.support.trials import trial

JARS = list((ROOT / "binders" / "jars").glob("spark-mqtt*.jar"))
TIMEOUT = 600
LONE = SiteFile(
    site=one_site("A", "http://a:1", "tcp://a:2"), coordinator="ws://127.0.0.1:1", token=Secret("file:/none")
)

needs_servers = pytest.mark.skipif(
    not (JARS and MOSQUITTO and shutil.which("java")), reason="needs Java, Mosquitto and the connector (make)"
)


def _demo(temporary: Path, **options: object) -> subprocess.Popen[str]:
    """A demo whose temporary files lie in a directory of its own, which identifies its processes."""
    given = ", ".join(f"{name}={value!r}" for name, value in options.items())
    program = f"import sys; from speck.cli.demo import *; sys.exit(run_demo(DemoOptions({given})))"
    temporary.mkdir(exist_ok=True)
    return subprocess.Popen(
        # These may be ignored where the tests run, and children inherit that.
        ["env", "--default-signal=INT,TERM", sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


def _processes_of(temporary: Path) -> list[list[str]]:
    """The processes that name the directory on their command line, or work in it."""
    found = []
    for pid in psutil.pids():  # what psutil.process_iter() has kept may be of an earlier process of this id
        try:
            process = psutil.Process(pid)
            command = process.cmdline()
            if any(str(temporary) in word for word in command) or str(temporary) in process.cwd():
                found.append(command)
        except psutil.Error:
            continue
    return found


@needs_servers
@pytest.mark.engine
def test_the_counts_agree_and_the_printed_commands_stop_a_kept_demo(tmp_path: Path) -> None:
    demo = _demo(tmp_path / "demo", limit=5000, rate=0, malformed=0.1, as_json=True, keep=True)
    commands: dict[str, str] = {}
    try:
        output, printed = demo.communicate(timeout=TIMEOUT)
        commands = dict(line.split(":  ", 1) for line in printed.splitlines() if line.startswith("to "))
        assert demo.returncode == 0, printed
        show = ["sh", "-c", f"{commands['to look at it']} --json"]
        # Those that the edit has just started are observed within ten seconds.
        states = eventually(
            lambda: [job["state"] for job in json.loads(subprocess.check_output(show, cwd=ROOT))],
            lambda found: "unknown" not in found,
        )
        assert states == ["running"] * 17
    finally:
        demo.kill()
        subprocess.run(["sh", "-c", commands.get("to end it", "true")], cwd=ROOT, check=False)
    counts = json.loads(output)
    assert counts["sent"]["readings"] == 5000
    assert counts["sent"] == counts["counted_locally"] == counts["counted_globally"]
    assert counts["malformed"] > 0
    assert counts["jobs"] == 17
    assert counts["actions"] == {"start": 1, "stop": 1, "update": 0, "move": 1, "keep": 15}
    calls = counts["engine_calls"]
    assert (calls["submit"], calls["stop"]) == (2, 2)
    assert {"sites", "server", "deploy", "edit", "feed", "total"} <= set(counts["seconds"])
    eventually(lambda: _processes_of(tmp_path / "demo"), lambda found: found == [])
    assert len(list((tmp_path / "demo").glob("speck-demo-*/server.log"))) == 1


@needs_servers
@pytest.mark.skipif(
    not os.environ.get("SPECK_PLACED_DEMO"),
    reason="it measures for minutes; the page on placement is run (SPECK_PLACED_DEMO)",
)
@pytest.mark.engine
def test_the_counts_agree_when_jobs_move_as_advised(tmp_path: Path) -> None:
    demo = _demo(tmp_path / "demo", kind="place", rate=400, measure=35, as_json=True)
    output, printed = demo.communicate(timeout=TIMEOUT)
    assert output, printed
    counts = json.loads(output)
    assert demo.returncode == 0, printed
    assert counts["changed_again"] == []
    assert counts["sent"] == counts["counted_locally"] == counts["counted_globally"], printed
    assert counts["actions"]["move"] > 0, printed
    assert counts["actions"]["start"] == counts["actions"]["stop"] == 0
    assert printed.count("no better placement") == 1
    eventually(lambda: _processes_of(tmp_path / "demo"), lambda found: found == [])


@needs_servers
@pytest.mark.skipif(
    not os.environ.get("SPECK_HOT_DEMO"),
    reason="its parts are tested by themselves; all of it takes a minute of processor time (SPECK_HOT_DEMO)",
)
@pytest.mark.engine
def test_hot_towns_are_level_after_the_edit_and_every_window_is_right(tmp_path: Path) -> None:
    options = {"kind": "hot", "limit": 3000, "rate": 100, "as_json": True}
    output, printed = _demo(tmp_path / "demo", **options).communicate(timeout=TIMEOUT)
    assert output, printed
    found = json.loads(output)
    assert found["windows"] == found["awaited"] > 100, printed
    assert found["missing"] == found["wrong"] == found["twice"] == 0, printed
    before, after = found["phases"]
    assert (before["partitioner"], after["partitioner"]) == ("hash", "balanced")
    assert before["windows"] > 0
    assert before["imbalance"] > 1.2 > 0.4 > after["imbalance"], printed
    assert found["actions"] == {"start": 0, "stop": 0, "update": 1, "move": 0, "keep": 5}
    eventually(lambda: _processes_of(tmp_path / "demo"), lambda found: found == [])


@needs_servers
@trial("the jobs of tests/apps/test_geofencing_jobs.py; all of it takes minutes of processor time")
@pytest.mark.engine
def test_every_event_of_the_fences_is_right_while_jobs_move(tmp_path: Path) -> None:
    output, printed = _demo(tmp_path / "demo", kind="fences", as_json=True).communicate(timeout=TIMEOUT)
    assert output, printed
    found = json.loads(output)
    assert found["awaited"] > 1000, printed
    assert found["missing"] == found["extra"] == found["twice"] == found["wrong"] == 0, printed
    assert found["actions"] == {"start": 0, "stop": 0, "update": 0, "move": 2, "keep": 12}
    assert found["jobs"] == 14
    eventually(lambda: _processes_of(tmp_path / "demo"), lambda found: found == [])


@needs_servers
@trial("tests/promises/test_autonomy.py cuts the power of a site; all of it takes minutes of processor time")
@pytest.mark.engine
def test_the_counts_agree_when_a_site_loses_power_and_no_server_runs(tmp_path: Path) -> None:
    output, printed = _demo(tmp_path / "demo", kind="alone", as_json=True).communicate(timeout=TIMEOUT)
    assert output, printed
    found = json.loads(output)
    assert found["sent"] == found["counted_locally"] == found["counted_globally"], printed
    assert found["sent"]["readings"] > 0
    assert found["jobs"] == 17
    assert found["seconds"]["alone"] < 60, printed
    assert "17 jobs run, in the attempts from before" in printed
    eventually(lambda: _processes_of(tmp_path / "demo"), lambda found: found == [])


@needs_servers
@trial("tests/promises/test_mixed_brokers.py; all of it takes minutes of processor time")
@pytest.mark.engine
def test_the_counts_agree_with_a_kafka_in_the_cloud(tmp_path: Path) -> None:
    output, printed = _demo(tmp_path / "demo", kind="kafka", as_json=True).communicate(timeout=TIMEOUT)
    assert output, printed
    counts = json.loads(output)
    assert counts["sent"]["readings"] > 50_000, printed
    assert counts["sent"] == counts["counted_locally"] == counts["counted_globally"], printed
    assert counts["actions"] == {"start": 1, "stop": 1, "update": 0, "move": 1, "keep": 15}
    eventually(lambda: _processes_of(tmp_path / "demo"), lambda found: found == [])


@needs_servers
@trial("test_either_signal_interrupts_a_demo, and starters that are killed in tests/local/test_local.py")
@pytest.mark.skipif(not SMALL_FLINK.exists(), reason=f"{SMALL_FLINK.name} is not built (make jars)")
@pytest.mark.engine
def test_an_interrupted_demo_stops_everything(tmp_path: Path) -> None:
    demo = _demo(tmp_path / "demo", kind="alone")  # of all engines, its four take the least to start
    try:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "engine" in line and line.rstrip().endswith("is up"):  # some servers are up, others not yet
                break
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=TIMEOUT)
    finally:
        demo.kill()
    assert demo.returncode == 130
    assert _processes_of(tmp_path / "demo") == []
    assert list((tmp_path / "demo").glob("speck-demo-*")) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_either_signal_interrupts_a_demo(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Path] = []

    class Interrupted(Demo):
        def run(self) -> int:
            self._cleanup.callback(ended.append, self._directory)
            signal.raise_signal(number)
            return 0

    monkeypatch.setattr("speck.cli.demo.KINDS", {"": Interrupted})
    harmless = signal.signal(number, lambda *_: None)  # what a demo that does not handle it leaves in place
    try:
        assert run_demo(DemoOptions()) == INTERRUPTED
    finally:
        signal.signal(number, harmless)
    (directory,) = ended
    directory.rmdir()


def test_counts_that_agree_have_no_differences() -> None:
    counted = {"readings": 3, "vehicles": 9}
    assert Counts(sent=counted, counted_locally=counted, counted_globally=counted).differences() == []


def test_every_difference_is_named() -> None:
    counts = Counts(
        sent={"readings": 1003, "vehicles": 9},
        counted_locally={"readings": 1003, "vehicles": 8},
        counted_globally={"readings": 1004, "vehicles": 9},
    )
    assert counts.differences() == [
        "at the sites: 8 vehicles counted, 9 sent (-1)",
        "over all sites: 1,004 readings counted, 1,003 sent (+1)",
    ]


def test_nothing_counted_differs_from_something_sent() -> None:
    assert len(Counts(sent={"readings": 1, "vehicles": 1}).differences()) == 4


def test_the_statistics_show_each_site_and_all(tmp_path: Path) -> None:
    window = {
        "start": "2026-03-02T07:15:00",
        "end": "2026-03-02T07:30:00",
        "mean_speed": 41.5,
        "slowest": ["17", "4"],
    }
    totals = {
        "local": {"readings": 1200, "vehicles": 31},
        "overall": {"readings": 1100, "vehicles": 30},
        "sites": {"A": {"readings": 1200, "vehicles": 31}},
        "latest": {"A": window},
    }
    console = Console(record=True, width=100, file=(tmp_path / "out").open("w"))
    console.print(statistics_table(totals, "data flows"))
    View(console).statistics(totals, "data flows")
    text = console.export_text()
    console.file.close()
    for expected in ("1,200", "1,100", "07:15 to 07:30", "41.5 km/h", "17, 4", "all"):
        assert expected in text
    assert "at the sites 1,200 readings, 31 vehicles; over all 1,100, 30" in text


def test_statistics_before_the_first_are_empty() -> None:
    assert statistics_table({}, "data flows").row_count == 0


def hot_counts(**fields: object) -> HotCounts:
    values = {"sent": {}, "awaited": 10, "windows": 10, "wrong": 0, "twice": 0, "dropped": {}, "phases": ()}
    further = {"jobs": 6, "actions": {}, "engine_calls": {}, "seconds": {}}
    return HotCounts(**{**values, **further, **fields})  # type: ignore[arg-type]


def test_windows_that_came_once_and_are_right_have_no_differences() -> None:
    assert hot_counts().differences() == []


def test_every_fault_of_the_windows_is_named() -> None:
    found = hot_counts(windows=8, wrong=1, twice=3, dropped={"bad": 0, "late": 4})
    assert found.missing == 2
    assert found.differences() == [
        "2 of 10 windows did not come out",
        "1 of 10 windows are wrong",
        "3 of 10 windows came out twice",
        "4 rows were dropped as late",
    ]
    assert hot_counts(awaited=0, windows=0).differences() == ["the input has no vehicle, and so no window"]


def test_the_imbalance_is_that_of_the_busiest_combiner() -> None:
    assert imbalance([3, 1, 1, 1]) == 1.0
    assert imbalance([2, 2]) == imbalance([0, 0]) == imbalance([]) == 0.0


def test_the_rows_of_the_combiners_show_live(tmp_path: Path) -> None:
    totals = {"awaited": 165, "windows": 12, "wrong": 0, "loads": [9, 1200], "recent": [3, 1]}
    console = Console(record=True, width=120, file=(tmp_path / "out").open("w"))
    console.print(loads_table(totals, "by hash"))
    console.print(loads_table({}, "by hash"))
    HotView(console).statistics(totals, "by hash")
    text = console.export_text()
    console.file.close()
    for expected in ("by hash; 12 of 165 windows, 0 wrong", "1,200", "\N{FULL BLOCK}" * 30, "imbalance 0.50"):
        assert expected in text
    assert "rows 3 | 1: imbalance 0.50; 12 of 165 windows, 0 wrong  (by hash)" in text


def test_the_demo_of_hot_towns_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "find_spec", lambda _: None)
    with pytest.raises(LocalError, match=r"needs the package fastdigest"):
        run_demo(DemoOptions(kind="hot"))


def fence_counts(**fields: int) -> FenceCounts:
    values = {"awaited": 10, "rejected": 3, **fields}
    further = {"jobs": 14, "actions": {}, "engine_calls": {}, "seconds": {}}
    return FenceCounts.of(values, sent={"malformed": 3}, **further)


def test_events_that_came_once_and_are_right_have_no_differences() -> None:
    assert fence_counts().differences() == []
    assert fence_counts(rejected=4).differences() == []


def test_every_fault_of_the_events_is_named() -> None:
    found = fence_counts(missing=1, extra=2, twice=3, wrong=4, rejected=2)
    assert found.differences() == [
        "1 of 10 events did not come",
        "2 of 10 events came that are not in the reference",
        "3 of 10 events came twice",
        "4 of 10 events are wrong",
        "2 of 3 malformed lines were rejected",
    ]
    assert fence_counts(awaited=0).differences() == ["no event was compared"]


def test_the_numbers_of_events_show_live(tmp_path: Path) -> None:
    totals = {"fences": 400, "events": 1200, "late": 3, "late_fences": 1, "rejected": 2}
    compared = {"awaited": 1201, "missing": 1, "extra": 0, "twice": 0, "wrong": 0}
    console = Console(record=True, width=200, file=(tmp_path / "out").open("w"))
    console.print(counts_table(totals, "movers move"))
    console.print(counts_table({}, "movers move"))
    FencesView(console).statistics(totals, "movers move")
    FencesView(console).statistics(totals | compared, "all is sent")
    text = console.export_text()
    console.file.close()
    for expected in ("movers move", "1,200", "late fences"):
        assert expected in text
    assert "400 fences: 1,200 events, 3 late, 1 late fences, 2 rejected  (movers move)" in text
    assert "1,201 awaited, 1 missing, 0 extra, 0 twice, 0 wrong  (all is sent)" in text


def test_the_demo_of_fences_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fences, "find_spec", lambda _: None)
    with pytest.raises(LocalError, match=r"needs the package shapely \(pip install 'speck\[fences\]'\)"):
        run_demo(DemoOptions(kind="fences"))


def test_each_kind_of_demo_has_its_option() -> None:
    options = {each.name for each in demo.params if isinstance(each, Option) and each.is_flag}
    assert KINDS.keys() - {""} == options - {"keep", "as_json"}


def test_options_that_do_not_fit_a_demo_are_refused() -> None:
    for options, fault in (
        (["--hot", "--place"], "--mixed, --kafka, --place, --adapt, --hot, --fences and --alone exclude"),
        (["--hot", "--malformed", "0.1"], "--malformed cannot be combined with --hot"),
        (["--fences", "--hot"], "--hot, --fences and --alone exclude each other"),
        (["--alone", "--mixed"], "--hot, --fences and --alone exclude each other"),
        (["--fences", "--limit", "9"], "--limit cannot be combined with --fences"),
        (["--fences", "--malformed", "0.1"], "--malformed cannot be combined with --fences"),
    ):
        found = CliRunner().invoke(demo, options)
        assert found.exit_code == 2
        assert fault in found.output


def test_the_demo_of_adaptation_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapted, "unavailable", lambda: "a network needs /dev/net/tun")
    file = tmp_path / "day.csv"
    file.write_text("OK,49,75,668,49,2014-08-18T00:10:00,3,1,158324\n")
    with pytest.raises(
        LocalError, match=r"sites in a wide area network cannot be created .* a network needs /dev/net/tun"
    ):
        run_demo(DemoOptions(data=file, kind="adapt"))


def test_the_progress_line_of_adaptation_says_what_the_loop_waits_for() -> None:
    shown = adapted.AdaptedDemo.__new__(adapted.AdaptedDemo)
    note = shown._noted("data flows")
    assert note() == "data flows; the loop: no decision yet"
    shown._latest = {"reason": "the rate of job 'clean-a1' is not of the last minute"}
    assert note() == "data flows; the loop: the rate of job 'clean-a1' is not of the last minute"


def test_the_jobs_that_run_again_alone_are_shown_once(tmp_path: Path) -> None:
    console = Console(record=True, width=200, file=(tmp_path / "out").open("w"))
    with ExitStack() as cleanup:
        demo = AloneDemo(DemoOptions(kind="alone"), tmp_path, View(console), cleanup)
    demo._sites = LocalSites(tmp_path, ())
    agent = tmp_path / "A" / "agent"
    write_site_file(agent, LONE)
    files = AttemptFiles(agent / "attempts")
    records = [
        accepted(job(name), Attempt(id=name * 32, job_name=name, number=1, session="s"), "http://a:1")
        for name in "ab"
    ]
    running = [each.confirmed(Handle("http://a:1", each.attempt.job_name)) for each in records]
    for each in running:
        files.write(each)
    restored: set[str] = set()
    assert not demo._show_restored(restored, time.monotonic())
    for done, each in ((False, running[0]), (False, running[0]), (True, running[1])):
        files.write(each.to(Phase.GONE).next_run(None).confirmed(Handle("http://a:1", "again")))
        assert demo._show_restored(restored, time.monotonic()) is done
    with pytest.raises(SpeckError, match="the jobs of site A do not run 120 s after power was back"):
        demo._show_restored(restored, time.monotonic() - 121)
    text = console.export_text()
    console.file.close()
    assert text.count("job a runs again") == text.count("job b runs again") == 1
    assert "(attempt 1, start 2)" in text


def test_decisions_and_steps_are_shown_with_their_figures(tmp_path: Path) -> None:
    console = Console(record=True, width=200, file=(tmp_path / "out").open("w"))
    view = View(console)
    view.decision(asdict(STEPPED))
    view.step(asdict(STEP))
    text = console.export_text()
    console.file.close()
    assert f"step    link     {STEPPED.reason}" in text
    assert (
        "clean-a, local-a D -> A: reverted; 1 of 3 windows passed; "
        "objective 1.02 before, 0.7 predicted" in text
    )
