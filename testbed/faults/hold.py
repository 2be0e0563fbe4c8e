"""A soak: the mixed composition for hours under load and random faults, and the sizes of its servers.

::

    python -m benchmarks.promises hold --hours 1 --seed 7 --json --picture hold.svg

Texts are repeated, so that the state of the counting jobs is bounded.  Sampled are the resident memory and
the open files of each process, the memory that the broker itself counts as allocated, the payloads that it
stores, and the size of the store; ``growth`` compares the medians of the first and
the last third of the time after the first part (an hour, or half of a shorter run).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import psutil
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from speck.errors import SpeckError
from testbed.faults.kinds import (
    broker,
    cut_power,
    flink_processes,
    paused,
    spark,
)
from testbed.faults.mixed import A, ExpandForm
from testbed.faults.servers import Layout, LoadTrial, Testbed
from testbed.results import add_output_options, published

WORDS = 10_000  # texts of each writer, sent again and again
_OTHER = ExpandForm("c", A.twice)  # writes another text for the same inputs
_PERIOD = 10.0  # s between two samples
_FIRST_PART = 3600.0  # s
_REST = (15.0, 45.0)  # s between two faults
_MEBIBYTE = 1 << 20
_PATIENCE = 300.0  # s, for which a change that failed for a fault is retried


# --- faults


def _kill_spark(trial: LoadTrial) -> None:
    trial.bed.spark.kill()
    trial.bed.spark.start()


def _kill_coordinator(trial: LoadTrial) -> None:
    trial.bed.stop_coordinator()
    trial.bed.start_coordinator()


def _broker_away(trial: LoadTrial) -> None:
    trial.bed.broker.kill()
    time.sleep(20)
    trial.bed.broker.start()


def _refuse_rest(trial: LoadTrial) -> None:
    with trial.bed.rest.refused():
        time.sleep(20)


def _update(trial: LoadTrial) -> None:
    _insist(lambda: trial.apply(form=_OTHER if trial.mixed.form == A else A))


def _rewire(trial: LoadTrial) -> None:
    wire = f"-{int(trial.mixed.wire[1:] or 0) + 1}"
    _insist(lambda: trial.apply(wire=wire))


def _insist(apply: Callable[[], None]) -> None:
    """Apply again and again: after a fault something may not run yet."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return apply()
        except (RuntimeError, SpeckError):
            if time.monotonic() > deadline:
                raise
        time.sleep(5)


FAULTS: Mapping[str, Callable[[LoadTrial], object]] = {
    "spark_killed": _kill_spark,
    "task_manager_killed": lambda trial: trial.bed.flink.kill_task_manager(),
    "job_manager_killed": lambda trial: trial.bed.flink.kill_job_manager(),
    "coordinator_killed": _kill_coordinator,
    "broker_away": _broker_away,
    "power_cut": lambda trial: cut_power(trial.bed, 30),
    "rest_refused": _refuse_rest,
    "flink_paused": paused(flink_processes, 10),
    "spark_paused": paused(spark, 10),
    "broker_paused": paused(broker, 10),
    "update": _update,
    "rewire": _rewire,
}


# --- samples


class BrokerSizes:
    """The sizes that a Mosquitto publishes, in a block of ``with``; reconnects automatically."""

    _TOPICS: Mapping[str, str] = {
        "$SYS/broker/heap/current": "broker_heap",
        "$SYS/broker/store/messages/bytes": "broker_payloads",
    }

    def __init__(self, url: str) -> None:
        self._found: dict[str, float] = {}
        self._client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.on_connect = self._subscribe
        self._client.on_disconnect = lambda *_: self._found.clear()
        self._client.on_message = self._take
        self._url = urlsplit(url)

    def __enter__(self) -> BrokerSizes:
        self._client.connect_async(self._url.hostname or "", self._url.port or 1883, keepalive=10)
        self._client.loop_start()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def present(self) -> dict[str, float]:
        """The sizes that were published last on the present connection; MiB."""
        return {f"{name}_mib": size / _MEBIBYTE for name, size in self._found.copy().items()}

    def _subscribe(self, *_: object) -> None:
        self._client.subscribe([(topic, 0) for topic in self._TOPICS])

    def _take(self, _client: object, _data: object, message: MQTTMessage) -> None:
        self._found[self._TOPICS[message.topic]] = float(message.payload)


@dataclass
class Sampler:
    """Samples the servers of a test bed in the background; a sample has figures by name, and ``at`` (s)."""

    bed: Testbed
    samples: list[dict[str, float]] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Sampler:
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._sample, name="sampler")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        with BrokerSizes(self.bed.broker.address) as sizes:
            while not self._ended.wait(_PERIOD):
                self.samples.append(self._present() | sizes.present())

    def _present(self) -> dict[str, float]:
        found = {"at": time.monotonic() - self._began, "store_mib": self._store()}
        for name, pid in self._processes():
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                found[f"{name}_mib"] = process.memory_info().rss / _MEBIBYTE
                found[f"{name}_files"] = process.num_fds()
        return found

    def _processes(self) -> Iterator[tuple[str, int]]:
        """The processes that run now; a server that is being replaced may have none."""
        bed = self.bed
        if bed.served is not None:
            yield "coordinator", bed.served.pid
        for name, server in (("spark", bed.spark), ("broker", bed.broker)):
            with suppress(AssertionError):
                yield name, server.pid
        yield from zip(("job_manager", "task_manager"), flink_processes(bed), strict=False)

    def _store(self) -> float:
        sizes = 0
        for path in (self.bed.directory / "store").rglob("*"):
            with suppress(FileNotFoundError):
                sizes += path.stat().st_size
        return sizes / _MEBIBYTE


def growth(samples: Sequence[Mapping[str, float]], first_part: float) -> dict[str, dict[str, float]]:
    """By figure the medians of the first and the last third of the samples after the first part (s)."""
    rest = [each for each in samples if each["at"] >= first_part]
    third = len(rest) // 3
    if not third:
        return {}
    names = sorted({name for each in rest for name in each} - {"at"})
    found = {}
    for name in names:
        early, late = (
            median([each[name] for each in part if name in each] or [0.0])
            for part in (rest[:third], rest[-third:])
        )
        found[name] = {"early": round(early, 2), "late": round(late, 2)}
    return found


# --- the soak


def hold(bed: Testbed, seconds: float, seed: int, rate: float) -> dict[str, Any]:
    """Run for the given time, and count; returns the figures with all samples."""
    chance = random.Random(seed)
    done: Counter[str] = Counter()
    errors: list[str] = []
    with bed.trial() as trial, Sampler(bed) as sampler:
        trial.send(rate, lambda name, number: f"{name}-{number % WORDS}")
        trial.await_outputs()
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            time.sleep(min(remaining, chance.uniform(*_REST)))
            name = chance.choice(sorted(FAULTS))
            with _noted(name, errors):
                FAULTS[name](trial)
            done[name] += 1
        found = trial.final_account()
        states = trial.states()
    return {
        "hours": round(seconds / 3600, 3),
        "seed": seed,
        "messages": found.messages,
        "lost": found.lost,
        "doubled": found.doubled,
        "faults": dict(sorted(done.items())),
        "errors": errors,
        "not_running": {job: state for job, state in states.items() if state != "running"},
        "growth": growth(sampler.samples, min(_FIRST_PART, seconds / 2)),
        "samples": sampler.samples,
    }


@contextmanager
def _noted(name: str, errors: list[str]) -> Iterator[None]:
    """Write down how a fault went."""
    began = time.monotonic()
    try:
        yield
    except (RuntimeError, TimeoutError, SpeckError, OSError) as error:
        errors.append(f"{name}: {error}")
    wrong = f": {errors[-1]}" if errors and errors[-1].startswith(f"{name}: ") else ""
    print(f"{name} [{time.monotonic() - began:.0f} s]{wrong}", file=sys.stderr, flush=True)


def draw(samples: Sequence[Mapping[str, float]], path: Path) -> None:
    """A picture of the samples: memory, open files, and the store."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    names = sorted({name for each in samples for name in each} - {"at", "store_mib"})
    panel_of = {"mib": panels[0], "files": panels[1]}
    for name in names:
        role, _, unit = name.rpartition("_")
        points = [(each["at"] / 60, each[name]) for each in samples if name in each]
        panel_of[unit].plot(*zip(*points, strict=True), label=role.replace("_", " "), linewidth=1)
    panels[2].plot(
        [each["at"] / 60 for each in samples], [each["store_mib"] for each in samples], linewidth=1
    )
    for panel, title in zip(panels, ("memory (MiB)", "open files", "store (MiB)"), strict=True):
        panel.set(title=title, xlabel="minutes", ylim=(0, None))
        panel.grid(alpha=0.3)
    panels[0].legend(frameon=False, fontsize="small")
    figure.savefig(path)
    plt.close(figure)


def main(arguments: Sequence[str]) -> int:
    """Run the soak; the result is 1 when something was lost or doubled, or does not run in the end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises hold", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=100.0, help="messages/s (default 100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--picture", type=Path, help="an SVG of the samples")
    parser.add_argument("--samples", type=Path, help="a JSON file of all samples")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", file=sys.stderr)
    with (
        tempfile.TemporaryDirectory(prefix="speck-hold-") as directory,
        Testbed(Path(directory), Layout(workers=2)) as bed,
    ):
        result = hold(bed, options.hours * 3600, options.seed, options.rate)
    samples = result.pop("samples")
    if options.samples:
        options.samples.write_text(json.dumps(samples), encoding="utf-8")
    if options.picture:
        draw(samples, options.picture)
    if not published(options, "promises-hold", result):
        for name, value in result.items():
            print(f"{name:>12}  {value}")
    return 1 if any(result[each] for each in ("lost", "doubled", "errors", "not_running")) else 0
