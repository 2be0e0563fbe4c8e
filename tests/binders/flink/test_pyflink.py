"""Python programs on a real Flink cluster, with a real PyFlink."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from binders.flink.local import cluster
from binders.flink.local.server import PYTHON_VARIABLE
from binders.flink.submission.job_config import program_arguments
from binders.flink.submission.package import package_of
from binders.mqtt import MqttBroker
from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import build
from speck.core.inventory import Inventory, Login, Secret
from speck.core.job import Job, Scalar, client_id, session_name
from speck.core.runtime import JobState
from speck.core.settings import Settings
from speck.errors import Rejected
from speck.schema.compositions import load_composition
from speck.store import Store
from speck.testing import attempt_of, await_state, eventually
from speck.testing.engine_checks import assert_listed
from testbed import ROOT
from testbed.benches import user
from testbed.benches.contents import CONTENTS
from testbed.benches.examples import one_site
from testbed.benches.flink import BROKER, FlinkBench
from testbed.benches.mqtt_client import MqttClient
from testbed.faults.flow import client
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from tests.support.trials import trial

pytestmark = pytest.mark.engine

AS_MAPPED = trial("[mapped]")

NUMBERS = ROOT / "testbed" / "programs" / "pyflink" / "numbers.py"
ZONES = NUMBERS.with_name("zones.py")

COUNT = """
jobs:
- job_name: pycount
  site: A
  engine: flink
  source_topic: words
  sink_topic: out/counted
  entry_class: count_by_key
  job_path: jars_and_apps/flink_python/readings.py
  arguments: {{field: {field}}}
- job_name: pycopies
  site: A
  engine: flink
  source_topic: out/counted
  sink_topic: out/copies
  entry_class: as_they_are
  job_path: testbed/programs/pyflink/numbers.py
"""


def pyflink() -> str:
    """The Python with PyFlink that is named, or that ``make`` has made; empty when there is none."""
    made = ROOT / ".pyflink" / "bin" / "python"
    return os.environ.get(PYTHON_VARIABLE) or (str(made) if (made.parent.parent / "made").exists() else "")


@pytest.fixture(scope="module", name="bench")
def bench_fixture(tmp_path_factory: pytest.TempPathFactory, flink_jobs: Path) -> Iterator[FlinkBench]:
    """A cluster with PyFlink."""
    if not pyflink():
        pytest.skip(f"no Python with PyFlink (make pyflink, or {PYTHON_VARIABLE})")
    if not cluster.CONNECTOR.exists():
        pytest.skip("the connector is not built (make jars)")
    server = FlinkServer(
        tmp_path_factory.mktemp("pyflink"), python=pyflink(), slots=8, talkative=True, small=True
    )
    server.environment["LC_ALL"] = "C"  # as of a service: texts beyond ASCII must still come through
    with server:
        bench = FlinkBench(server, flink_jobs)
        yield bench
        bench.close()


def numbers(bench: FlinkBench, name: str, entry: str = "__main__", /, **arguments: Scalar) -> Job:
    return replace(bench.job(name, **arguments), job_path=str(NUMBERS), entry_class=entry)


def line_of(text: str, program: Path = NUMBERS) -> int:
    lines = program.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def counts(out: Path) -> list[int]:
    return [int(line) for line in out.read_text().splitlines()] if out.exists() else []


def publish_stamped(port: int, topic: str, text: str, *stamp: tuple[str, str]) -> None:
    """Publish a message with these user properties."""
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = list(stamp)
    with client(f"tcp://127.0.0.1:{port}") as sender:
        sender.publish(topic, text, 1, properties=properties).wait_for_publish(30)


@trial("a function through the coordinator")
def test_a_script_is_started_once_stopped_and_goes_on_from_its_state(
    bench: FlinkBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "hunter2-the-secret")
    login = Login(username="speck", password=Secret("${BROKER_PASSWORD}"))
    engine = bench.binder(Inventory({"A": one_site("A", bench.server.address, BROKER, login)}))
    job = numbers(bench, "script", out=str(tmp_path / "out"))
    engine.check(job, None)
    first = attempt_of(job)
    handle = engine.submit(job, first)
    assert engine.submit(job, first) == handle == bench.binder().find(first)
    assert handle.engine_id == first.id
    await_state(engine, handle, JobState.RUNNING)
    eventually(lambda: counts(tmp_path / "out"), lambda found: len(found) > 100)
    state = engine.stop(handle, keep_state=True)
    assert state is not None
    assert engine.status(handle).state is JobState.STOPPED
    assert bench.rest.jars() == {}
    before = len(counts(tmp_path / "out"))
    engine.check(job, state)
    second = engine.submit(job, attempt_of(job, 2, state))
    eventually(lambda: counts(tmp_path / "out"), lambda found: len(found) > before + 100)
    engine.stop(second, keep_state=False)
    found = counts(tmp_path / "out")
    assert found == list(range(1, len(found) + 1))
    assert "PythonDriver" in bench.server.log
    assert "hunter2" not in bench.server.log


@pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")
def test_programs_and_jars_that_are_started_at_once(bench: FlinkBench, mosquitto: MosquittoServer) -> None:
    engines = [bench.binder() for _ in range(2)]
    wired = {"source_broker": mosquitto.address, "sink_broker": mosquitto.address}
    programs = [replace(numbers(bench, f"once-{each}", "as_they_are"), **wired) for each in range(3)]
    jobs = [job for each in programs for job in (each, bench.job(f"{each.job_name}-jar"))]
    attempts = [attempt_of(job) for job in jobs]
    with ThreadPoolExecutor(6) as pool:
        handles = list(pool.map(lambda each: engines[each % 2].submit(jobs[each], attempts[each]), range(6)))
    names = {each.id: each.name for each in bench.rest.jobs().values() if not each.ended}
    assert names == {attempt.id: attempt.job_name for attempt in attempts}
    assert_listed(engines[0], list(zip(jobs, attempts, handles, strict=True)))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda handle: engines[0].stop(handle, keep_state=False), handles))


@pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")
def test_a_program_beside_those_that_others_start(bench: FlinkBench, mosquitto: MosquittoServer) -> None:
    """Flink would give it the context of one of theirs: that is seen, and it is started again."""
    theirs = bench.job("theirs")
    jar = bench.rest.upload(bench.jar, "theirs.jar")
    body = {
        "entryClass": theirs.entry_class,
        "programArgsList": program_arguments(theirs, attempt_of(theirs), Inventory()),
    }
    started = threading.Event()

    def others() -> None:
        while "SPECK-MIXED-UP" not in bench.server.log and not started.is_set():
            bench.rest.plan(jar, body)

    job = replace(
        numbers(bench, "beside", "as_they_are"),
        source_broker=mosquitto.address,
        sink_broker=mosquitto.address,
    )
    engine, attempt = bench.binder(), attempt_of(job)
    with ThreadPoolExecutor(1) as pool:
        disturbing = pool.submit(others)
        try:
            handle = engine.submit(job, attempt)
        finally:
            started.set()
        disturbing.result()
    assert "SPECK-MIXED-UP" in bench.server.log
    names = {each.id: each.name for each in bench.rest.jobs().values() if not each.ended}
    assert names == {attempt.id: "beside"}
    engine.stop(handle, keep_state=False)
    bench.rest.delete_jar(jar)


@pytest.mark.parametrize(
    ("entry", "arguments", "fault"),
    [
        (
            "broken",
            {},
            rf"ValueError: no such street: String \(numbers\.py, line {line_of('raise ValueError')}\)",
        ),
        ("nothing", {}, r"TypeError: a NoneType cannot be written \(expected a DataStream\)"),
        pytest.param(
            *("nothing", {"wrod": 1}, r"TypeError: nothing\(\) got an unexpected keyword argument 'wrod'"),
            marks=trial("errors of a program"),
        ),
        (
            "__main__",
            {"mode": "die"},
            r"its Python process ended without a reason \(see the Jo.*",
        ),
        ("__main__", {"mode": "exit"}, r"SystemExit: there is no such street \(numbers\.py, line \d+\)"),
        (
            "__main__",
            {"mode": "idle"},
            r"the program ended without starting a job \(expected one call of execute\)",
        ),
    ],
)
def test_a_program_that_is_refused(
    bench: FlinkBench, entry: str, arguments: dict[str, Scalar], fault: str
) -> None:
    job = numbers(bench, "refused", entry, **arguments)
    with pytest.raises(Rejected, match=rf"job 'refused' \({entry} of numbers\.py\): .*: {fault}$"):
        bench.binder().submit(job, attempt_of(job))
    assert bench.running("refused") == 0


def contents_job(
    bench: FlinkBench, mosquitto: MosquittoServer, name: str, entry: str, topic: str = ""
) -> Job:
    job = replace(
        bench.job(name),
        source_topic=topic or f"in/{name}",
        job_path=str(NUMBERS.with_name("contents.py")),
        entry_class=entry,
        source_broker=mosquitto.address,
        sink_broker=mosquitto.address,
    )
    broker = MqttBroker(mosquitto.address, bench.inventory)
    broker.ensure_session(client_id(name), job.source_topic)
    broker.close()
    return job


@pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")
@pytest.mark.parametrize(
    "entry",
    [pytest.param("as_they_are", marks=AS_MAPPED), "mapped", pytest.param("__main__", marks=AS_MAPPED)],
)
def test_contents_pass_unchanged(bench: FlinkBench, mosquitto: MosquittoServer, entry: str) -> None:
    job = contents_job(bench, mosquitto, f"contents-{entry.strip('_')}", entry)
    engine, mqtt_client = bench.binder(), MqttClient(mosquitto.port)
    handle = engine.submit(job, attempt_of(job))
    number = (b"length",) * (entry == "mapped")
    mqtt_client.send(job.source_topic, CONTENTS + number)
    expected = [f"{job.source_topic}|None|True|".encode() * (entry == "__main__") + each for each in CONTENTS]
    expected += [b"6"] * len(number)
    got = eventually(lambda: mqtt_client.got_bytes(job), lambda got: len(got) == len(expected))
    assert got == expected
    engine.stop(handle, keep_state=False)
    mqtt_client.close()


@pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")
@pytest.mark.parametrize("entry", ["placed", pytest.param("__main__", marks=trial("the same by a function"))])
def test_texts_beyond_ascii_come_through_a_cluster_in_another_locale(
    bench: FlinkBench, mosquitto: MosquittoServer, entry: str
) -> None:
    """Contents that are no text are an error where texts are read."""
    name = f"umlauts-{entry.strip('_')}"
    job = contents_job(bench, mosquitto, name, entry, f"in/stra\N{LATIN SMALL LETTER SHARP S}e/{name}")
    arguments = {"place": "Z\N{LATIN SMALL LETTER U WITH DIAERESIS}rich \N{GRINNING FACE}"}
    sink = f"out/gr\N{LATIN SMALL LETTER O WITH DIAERESIS}\N{LATIN SMALL LETTER SHARP S}e/{name}"
    job = replace(job, sink_topic=sink, arguments=arguments if entry == "placed" else {})
    engine, mqtt_client = bench.binder(), MqttClient(mosquitto.port)
    handle = engine.submit(job, attempt_of(job))
    mqtt_client.send(job.source_topic, ["\N{EURO SIGN}"])
    placed = f"\N{EURO SIGN} {arguments['place']}"
    expected = placed if entry == "placed" else f"{job.source_topic}|None|True|\N{EURO SIGN}"
    got = eventually(lambda: mqtt_client.got(job), lambda got: len(got) == 1)
    assert got == [expected]
    if entry == "placed":
        mqtt_client.send(job.source_topic, CONTENTS)
        status = eventually(lambda: engine.status(handle), lambda status: "InvalidText" in status.message)
        assert f"on message 3 of topic '{job.source_topic}': " in status.message
        assert "byte 0xFF at position 1 of 2 is not UTF-8" in status.message
    engine.stop(handle, keep_state=False)
    mqtt_client.close()


@pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")
def test_local_times_have_the_zone_of_the_job(bench: FlinkBench, mosquitto: MosquittoServer) -> None:
    """And an error of the program is located."""
    job = contents_job(bench, mosquitto, "zones", "__main__")
    job = replace(job, job_path=str(ZONES), timezone="Europe/Berlin")
    engine, mqtt_client = bench.binder(), MqttClient(mosquitto.port)
    handle = engine.submit(job, attempt_of(job))
    # The third does not exist, and the fourth comes twice: as much later, and the later one.
    local = ("2026-01-01 00:30:00", "2026-07-01 00:30:00", "2026-03-29 02:30:00", "2026-10-25 02:30:00")
    mqtt_client.send(job.source_topic, local)
    got = eventually(lambda: mqtt_client.got(job), lambda got: len(got) == len(local))
    instants = ("1767223800 00:30", "1782858600 00:30", "1774747800 03:30", "1792891800 02:30")
    assert got == [f"{each} {then} Europe/Berlin" for each, then in zip(local, instants, strict=True)]
    mqtt_client.send(job.source_topic, ["1900-01-01 00:30:00"])
    status = eventually(lambda: engine.status(handle), lambda status: "KeyError" in status.message)
    line = line_of("raise KeyError", ZONES)
    assert re.search(rf"KeyError: 'no such year' \(zones\.py, line {line}\)$", status.message)
    engine.stop(handle, keep_state=False)
    mqtt_client.close()


def test_a_type_of_contents_that_is_not_known_is_refused(
    bench: FlinkBench, mosquitto: MosquittoServer
) -> None:
    job = contents_job(bench, mosquitto, "contents-unknown", "unknown")
    with pytest.raises(Rejected, match=r"its value_type is 'bytes' \(expected text, binary or message\)"):
        bench.binder().submit(job, attempt_of(job))


def test_a_program_is_built_without_a_start(bench: FlinkBench) -> None:
    engine = bench.binder()
    engine.build_job(numbers(bench, "built", "as_they_are"))
    with pytest.raises(Rejected, match=r"no such street: String \(numbers\.py, line \d+\)$"):
        engine.build_job(numbers(bench, "built", "broken"))
    assert bench.running("built") == 0


def test_an_error_of_a_program_is_not_reported_for_the_next_one(bench: FlinkBench) -> None:
    with pytest.raises(Rejected, match="no such street"):
        bench.binder().build_job(numbers(bench, "before", "broken"))
    # Another binder asks the JobManager for its Python anew.
    engine, job = bench.binder(), numbers(bench, "after", "as_they_are")
    engine.check(job, None)
    engine.stop(engine.submit(job, attempt_of(job)), keep_state=False)


def test_a_function_that_is_missing_and_a_file_that_is_no_python(bench: FlinkBench, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"'numbers\.py' defines no function 'brokn' \(it has broken"):
        bench.binder().check(numbers(bench, "missing", "brokn"), None)
    (tmp_path / "half.py").write_text("def half(:\n")
    job = replace(numbers(bench, "half", "half"), job_path=str(tmp_path / "half.py"))
    with pytest.raises(Rejected, match=r"'half\.py' is not valid Python: .* \(line 1\)"):
        bench.binder().check(job, None)


def test_a_cluster_without_pyflink(flink_server: FlinkServer, flink_jobs: Path, tmp_path: Path) -> None:
    bench = FlinkBench(flink_server, flink_jobs)
    job = numbers(bench, "nowhere", out="out")
    with pytest.raises(
        Rejected, match=r"has no apache-flink \(expected apache-flink==2|there is no program 'python'"
    ):
        bench.binder().check(job, None)
    assert bench.running("nowhere") == 0
    assert f"{package_of(job).code}.jar" not in bench.rest.jars().values()
    bench.close()


@pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")
def test_a_function_through_the_coordinator(
    bench: FlinkBench, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    """Started, updated with its state, and deleted, while messages come."""
    inventory = Inventory({"A": one_site("A", bench.server.address, mosquitto.address)})
    mqtt_client = MqttClient(mosquitto.port)
    with Store(tmp_path / "store") as store:
        coordinator = build(store, installed(), inventory, Settings(roots=(ROOT,), period=0)).coordinator
        coordinator.start()

        def apply(field: int) -> Operation:
            text = COUNT.format(field=field)
            loaded = load_composition(
                text, inventory=inventory, registry=installed(), root=ROOT, default_name="one"
            )
            operation, _ = user.apply(coordinator, loaded.composition)
            assert operation.wait(240)
            assert operation.state == "succeeded", operation.actions
            return operation

        def received(topic: str) -> list[str]:
            return [text for where, text in list(mqtt_client.received) if where == topic]

        try:
            apply(1)
            mqtt_client.send("words", ["a,1", "b,1", "a,2"])
            eventually(lambda: received("out/copies"), lambda found: len(found) == 3)
            assert apply(1).calls == {}
            changed = apply(2).actions
            assert {name: each.kind for name, each in changed.items()} == {
                "pycount": "update",
                "pycopies": "keep",
            }
            mqtt_client.send("words", ["x,a", "y,see"])
            eventually(lambda: received("out/copies"), lambda found: len(found) == 5)
            assert received("out/counted") == ["a,1", "b,1", "a,2", "a,3", "see,1"]
            assert received("out/copies") == received("out/counted")
            # A writer repeats a message, as after its restart: Python programs count it as others do.
            stamp = ("speck-job", "pycount"), ("speck-seq", "1a2b3c4d/0/0/9")
            for _ in range(3):
                publish_stamped(mosquitto.port, "out/counted", "again", *stamp)
            (record,) = coordinator.store.attempts("pycopies")
            handle = record.handle
            assert handle is not None
            engine = coordinator.pool.engine_at("flink", bench.server.address)
            counted = eventually(
                lambda: engine.metrics(handle).details.get("duplicatesDropped"), lambda found: bool(found)
            )
            assert counted == 2
            assert user.delete_composition(coordinator, "one").wait(240)
            assert bench.running("pycount") == bench.running("pycopies") == 0
        finally:
            coordinator.close()
            mqtt_client.close()
    assert bench.rest.jars() == {}
    assert not MqttBroker(mosquitto.address, inventory).session_exists(
        session_name("pycount", store.identity)
    )
