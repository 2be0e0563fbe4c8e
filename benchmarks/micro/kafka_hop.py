"""One hop over Kafka: ``python -m benchmarks.hop --broker kafka [--engine flink] [--json] [--runs 5]``.

In one run, alternating, with messages of 100 bytes in topics of one partition: an engine's job started by
SpecK's own binder over Kafka, the same job over MQTT, the engine's own connector for Kafka at least once, on
Flink exactly once as well, a plain consumer and producer (``KafkaRelay.java``), and both brokers without a
hop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import Figure
from benchmarks.load import generator as load
from benchmarks.load.hops import HEAP, PROGRAMS, Engine, Hop, Program, engine_up, make_topics
from benchmarks.load.processes import running, server
from benchmarks.micro import hop as mqtt_hop
from benchmarks.micro import stock
from benchmarks.micro.hop import Bench, Options, Rounds, in_turn, say
from binders.kafka.local import KAFKA_SERVER, server_jars
from binders.mqtt.local import MOSQUITTO

OURS, MQTT, RELAY = "speck_kafka", "speck_mqtt", "relay"
NO_HOP, NO_HOP_MQTT = "no_hop_kafka", "no_hop_mqtt"
HOPS = (OURS, MQTT, stock.AT_LEAST_ONCE, stock.EXACTLY_ONCE, RELAY, NO_HOP, NO_HOP_MQTT)
DIRECT = "direct"  # the topic of the runs without a hop


@dataclass(frozen=True)
class Measured:
    """A hop, the bench of its broker, and the name of the runs without a hop at that broker."""

    hop: Hop
    bench: Bench
    ceiling: str = NO_HOP


def measure(options: Options, engine: str, directory: Path, trigger: str | None = None) -> dict[str, Any]:
    """All figures, by name; everything that is started ends before this returns or raises."""
    server_jars()  # raises where there is no Kafka, before anything is built
    program = replace(PROGRAMS[engine], trigger=trigger, optimised=options.optimised)
    others, skipped = stock.starts(program.engine, trigger, directory, options.optimised)
    if skipped:
        say(f"skipped: {skipped}")
    with contextlib.ExitStack() as stack:
        found = _hops(stack, program, others, directory, options.hops or HOPS)
        floods = {each.hop.name: partial(each.bench.flooded, each.hop, options.messages) for each in found}
        paced = {
            each.hop.name: partial(each.bench.paced, each.hop, options.latency_seconds) for each in found
        }
        throughput = in_turn(floods, options.runs, "messages/s")
        latency = in_turn(paced, options.runs, "latency")
    result: dict[str, Any] = {"skipped": skipped} if skipped else {}
    for name, figure in figures(found, throughput, latency).items():
        result |= {key: round(value, 3) for key, value in figure.named(name)}
    return {**result, **mqtt_hop.described(options), "profile": {}}


def _hops(
    stack: contextlib.ExitStack,
    ours: Program,
    others: Mapping[str, stock.Start],
    directory: Path,
    names: Sequence[str],
) -> list[Measured]:
    """The hops with these names, started, and no others; the stack ends them."""
    enter = stack.enter_context
    mosquitto, mqtt_ports = enter(server("mosquitto", MOSQUITTO, directory / "mqtt", HEAP))
    kafka, kafka_ports = enter(server("kafka", KAFKA_SERVER, directory / "kafka", HEAP))
    mqtt, log = MOSQUITTO.address(mqtt_ports), KAFKA_SERVER.address(kafka_ports)
    over_mqtt = Bench(mosquitto, enter(load.generator(mqtt_ports[0], directory)))
    over_kafka = Bench(kafka, enter(load.kafka_generator(kafka_ports[0], directory)))
    engine = enter(engine_up(ours, directory / "engine", log))
    make_topics(log, DIRECT)

    def own_connector(start: stock.Start) -> Measured:
        return Measured(start(stack, engine, log), over_kafka)

    starts: dict[str, Callable[[], Measured]] = {
        OURS: lambda: _started(OURS, engine, over_kafka),
        MQTT: lambda: _started(MQTT, engine.beside(ours, mqtt), over_mqtt, NO_HOP_MQTT),
        RELAY: lambda: Measured(enter(relay(directory, kafka_ports[0], log)), over_kafka),
        NO_HOP: lambda: Measured(Hop(NO_HOP, DIRECT, DIRECT, None), over_kafka),
        NO_HOP_MQTT: lambda: Measured(
            Hop(NO_HOP_MQTT, mqtt_hop.DIRECT, mqtt_hop.DIRECT, None), over_mqtt, NO_HOP_MQTT
        ),
    }
    starts |= {name: partial(own_connector, start) for name, start in others.items()}
    return [starts[name]() for name in HOPS if name in names and name in starts]


def _started(name: str, engine: Engine, bench: Bench, ceiling: str = NO_HOP) -> Measured:
    hop, _ = engine.start(name.replace("_", "-"))
    return Measured(replace(hop, name=name), bench, ceiling)


def figures(found: list[Measured], throughput: Rounds, latency: Rounds) -> dict[str, Figure]:
    """The figures of the runs that alternated; those of one round are compared with each other.

    What a hop adds to the latency is left out if its broker was not measured without a hop.
    """
    result: dict[str, Figure] = {}
    for name in (each.hop.name for each in found if each.hop.name not in (OURS, NO_HOP, NO_HOP_MQTT)):
        result[f"throughput_ratio_to_{name}"] = mqtt_hop.ratio(throughput, OURS, name)
        for percentile in ("p50", "p99"):
            result[f"latency_{percentile}_ratio_to_{name}"] = Figure.of(
                ours[f"{percentile}_ms"] / theirs[f"{percentile}_ms"]
                for ours, theirs in zip(latency[OURS], latency[name], strict=True)
            )
    for each in found:
        name = each.hop.name
        result[f"{name}_messages_per_s"] = mqtt_hop.figure(throughput[name], "messages_per_s")
        for percentile in ("p50", "p99"):
            result[f"{name}_{percentile}_ms"] = mqtt_hop.figure(latency[name], f"{percentile}_ms")
            if name != each.ceiling and each.ceiling in latency:
                added = mqtt_hop.added(latency, name, percentile, each.ceiling)
                result[f"{name}_added_{percentile}_ms"] = added
        if each.hop.process is not None:
            result[f"{name}_cpu_us_per_message"] = mqtt_hop.figure(throughput[name], "hop_cpu_us_per_message")
    return result


# --- the others -----------------------------------------------------------------------------------


@contextlib.contextmanager
def relay(directory: Path, port: int, broker: str) -> Iterator[Hop]:
    """The plain relay, which has its partition."""
    hop = Hop(RELAY, f"{RELAY}.in", f"{RELAY}.out", None)
    make_topics(broker, hop.out, hop.back)
    command = load.program("KafkaRelay", directory, port, hop.out, hop.back, jars=server_jars())
    with running(RELAY, command, directory) as process:
        assert process.process.stdout is not None
        if process.process.stdout.readline().strip() != "ready":
            log = (directory / f"{RELAY}.log").read_text(errors="replace")
            raise RuntimeError(f"the relay does not come up:\n{log[-2000:]}")
        yield replace(hop, process=process)
