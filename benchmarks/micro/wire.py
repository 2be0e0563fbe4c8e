"""Bytes of a message on the wire between two jobs, beyond plain MQTT 5, by the form of its stamp.

``python -m benchmarks.wire [--json] [--engine KIND] [--form FORM] [--hops N] [--messages N]``.  A job writes
to another broker, which a last job reads; with more hops, jobs before it pass the messages on at the first
broker.  The counters of the broker between (``$SYS/broker/bytes/received`` and ``sent``) give an average over
all that crosses: messages, acknowledgements, marks, pings and reports.  The size of a message without
properties is taken off, and that of its acknowledgement.  The broker is the ``mosquitto`` that is first in
``PATH``; from version 2.1 on, it sends topic aliases to readers.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection import Connection
from binders.mqtt.retained import VERSION_TOPIC, retained_all
from speck.binder import installed
from speck.coordinator import Coordinator, build
from speck.core.inventory import Engine, Inventory, Login, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.faults.flow import Listener, client
from testbed.results import add_output_options, published
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.termination import run
from testbed.waiting import PATIENCE, await_that

FORMS = ("text", "compact")
ENGINES = ("flink", "spark")
_TOPIC = "sensors/clean"
_PAYLOAD = 100  # bytes
_RATE = 500.0  # messages/s
_WARM = 2000  # messages, until both forms are settled
_PUBACK = 4  # bytes, MQTT 5, 3.4
_REPORTS = 2.5  # s, until Mosquitto has published its counters (sys_interval 1)
_JOBS = {
    "flink": (FLINK_CODE, "io.speck.flink.jobs.Forward"),
    "spark": (SPARK_CODE, "upper"),
}


def plain_bytes() -> int:
    """A PUBLISH at QoS 1 without properties (MQTT 5, 3.3)."""
    remaining = 2 + len(_TOPIC) + 2 + 1 + _PAYLOAD
    return 1 + (1 if remaining < 128 else 2) + remaining


@dataclass(frozen=True)
class Options:
    """``hops`` up to the broker whose bytes are counted."""

    engine: str
    form: str
    messages: int
    hops: int = 1


def measure(options: Options) -> dict[str, Any]:
    """Bytes a message beyond plain ones: as written to the broker, and as read from it."""
    engine, form, messages = options.engine, options.form, options.messages
    with tempfile.TemporaryDirectory(prefix="speck-wire-") as directory:
        folder = Path(directory)
        with (
            MosquittoServer(folder / "edge") as edge,
            MosquittoServer(folder / "middle", "sys_interval 1") as middle,
            _server(engine, folder, form) as server,
            _deployed(folder, options, server, edge, middle),
            client(edge.address) as consumer,
        ):
            results = Listener(consumer, "out")
            _pass(edge, results, _WARM)
            before = _counters(middle)
            version = _reports(middle, VERSION_TOPIC)[0]
            _pass(edge, results, messages)
            written, read = (
                (after - first) / messages for first, after in zip(before, _counters(middle), strict=True)
            )
    plain = plain_bytes() + _PUBACK
    return {
        "broker": version.partition("version ")[2] or version,
        "engine": engine,
        "stamps": form,
        "hops": options.hops,
        "written": round(written - plain, 1),
        "read": round(read - plain, 1),
    }


def _server(engine: str, folder: Path, form: str) -> FlinkServer | SparkServer:
    options = f"-Dspeck.sink.stamps={form}"
    if engine == "flink":
        flink = FlinkServer(folder / "engine", small=True)
        flink.environment["JAVA_TOOL_OPTIONS"] = options
        return flink
    spark = SparkServer(folder / "engine")
    spark.environment["JAVA_TOOL_OPTIONS"] = options
    return spark


@contextmanager
def _deployed(
    folder: Path,
    options: Options,
    server: FlinkServer | SparkServer,
    edge: MosquittoServer,
    middle: MosquittoServer,
) -> Iterator[Coordinator]:
    places: dict[str, Any] = (
        {"checkpoint_dir": str(folder / "states")}
        if isinstance(server, SparkServer)
        else {
            "checkpoint_dir": server.cluster.checkpoints.as_uri(),
            "savepoint_dir": server.cluster.savepoints.as_uri(),
        }
    )
    site = Site(
        name="A", engines=(Engine(spe_address=server.address, **places),), broker_address=edge.address
    )
    text = "jobs:\n" + "".join(
        job(name, server.address, source, sink, _JOBS[options.engine])
        for name, source, sink in chain(options.hops, edge.address, middle.address)
    )
    with Store(folder / "store") as store:
        settings = Settings(roots=(ROOT,), period=0)
        coordinator = build(store, installed(), Inventory({"A": site}), settings).coordinator
        coordinator.start()
        try:
            loaded = load_composition(
                text, inventory=coordinator.inventory, registry=installed(), root=ROOT, default_name="wire"
            )
            operation, _ = user.apply(coordinator, loaded.composition)
            if not operation.wait(PATIENCE) or operation.state != "succeeded":
                raise RuntimeError(f"the apply failed: {operation.to_dict()}")
            yield coordinator
        finally:
            coordinator.close()


def chain(hops: int, edge: str, middle: str) -> list[tuple[str, tuple[str, str], tuple[str, str]]]:
    """Name, source and sink of each job; the one before the last writes to the broker in the middle."""
    ends = [(edge, "in"), *((edge, f"mid/{number}") for number in range(1, hops)), (middle, _TOPIC)]
    names = [*(f"pass-{number}" for number in range(1, hops)), "clean", "count"]
    return list(zip(names, ends, [*ends[1:], (edge, "out")], strict=True))


def _pass(edge: MosquittoServer, results: Listener, messages: int) -> None:
    enough = len(results.received) + messages
    with client(edge.address) as sender:
        begun = time.monotonic()
        for number in range(messages):
            time.sleep(max(0.0, begun + number / _RATE - time.monotonic()))
            sender.publish("in", f"{number:0{_PAYLOAD}d}", 1)
        await_that(lambda: len(results.received), lambda count: count >= enough)


def _counters(broker: MosquittoServer) -> tuple[int, int]:
    """The bytes that the broker has received and sent, once it has counted all."""
    time.sleep(_REPORTS)
    received, sent = _reports(broker, "$SYS/broker/bytes/received", "$SYS/broker/bytes/sent")
    return int(received), int(sent)


def _reports(broker: MosquittoServer, *topics: str) -> list[str]:
    """The reports of the broker at some topics; ``"0"`` where there is none yet."""
    with Connection(BrokerAddress.parse(broker.address), Login(), "wire", timeout=10) as control:
        found = retained_all(control, topics)
    return [(each or b"0").decode() for each in found]


def main() -> None:
    """Measure, and print lines or one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_output_options(parser)
    parser.add_argument("--engine", choices=ENGINES, action="append", help="by default each")
    parser.add_argument("--form", choices=FORMS, action="append", help="of the stamps; by default each")
    parser.add_argument("--hops", type=int, default=1, metavar="N", help="up to the broker, 1 or more")
    parser.add_argument("--messages", type=int, default=10_000, metavar="N")
    given = parser.parse_args()
    if given.hops < 1:
        parser.error(f"--hops {given.hops} is no number of hops (expected 1 or more)")
    rows = [
        measure(Options(engine, form, given.messages, given.hops))
        for engine in given.engine or ENGINES
        for form in given.form or FORMS
    ]
    if published(given, "wire", {"bytes_beyond_plain": rows}):
        return
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    run(main)
