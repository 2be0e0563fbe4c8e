"""Hops with the engines' own connectors for Kafka, fetched by Maven (:mod:`benchmarks.micro.kafka_hop`)."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from benchmarks.load import generator as load
from benchmarks.load.hops import HEAP, PROGRAMS, Engine, Hop, Program, make_topics
from benchmarks.load.processes import server
from benchmarks.load.settings import Changed, optimised
from benchmarks.micro.hop import say
from binders.spark.local.connect_server import ConnectServer
from speck.binder import LocalServer
from speck.core.trigger import REAL_TIME

AT_LEAST_ONCE, EXACTLY_ONCE = "stock_at_least_once", "stock_exactly_once"
MAVEN_TIME = 300.0  # s, to fetch a connector
_LOAD = Path(load.__file__).parent

# Starts a hop at a broker, until the stack ends it; the engine is that of SpecK's hop.
Start = Callable[[contextlib.ExitStack, Engine, str], Hop]


def starts(
    engine: str, trigger: str | None, directory: Path, compiled: bool = False
) -> tuple[Mapping[str, Start], str]:
    """The hops with an engine's own connector by their names, or the reason why there are none.

    ``compiled`` is true for a server of their own that has Java's optimising compiler.
    """
    if engine == "flink":
        return _of_flink(directory)
    if trigger == REAL_TIME:
        return {}, "Spark's own connector for Kafka is measured in micro-batches, not in real time"
    return _of_spark(trigger, directory, compiled)


def _of_flink(directory: Path) -> tuple[Mapping[str, Start], str]:
    jar, fault = flink_jar(directory)
    if fault:
        return {}, fault
    program = replace(PROGRAMS["flink"], entry_class="io.speck.stock.Stock", job_path=jar)
    exactly = replace(program, arguments={"guarantee": "exactly_once"})
    return {
        AT_LEAST_ONCE: partial(_start_program, AT_LEAST_ONCE, program),
        EXACTLY_ONCE: partial(_start_program, EXACTLY_ONCE, exactly),
    }, ""


def flink_jar(directory: Path) -> tuple[Path, str]:
    """The jar of a hop with Flink's own connector, built below a directory, or the reason why it is not."""
    built, fault = _fetched("Flink", _LOAD / "stock", directory)
    return built / "stock-hop.jar", fault


def _start_program(
    name: str, program: Program, _stack: contextlib.ExitStack, engine: Engine, broker: str
) -> Hop:
    hop, _ = engine.beside(program, broker).start(name.replace("_", "-"))
    return replace(hop, name=name)


def _of_spark(trigger: str | None, directory: Path, compiled: bool) -> tuple[Mapping[str, Start], str]:
    built, fault = _fetched("Spark", _LOAD / "stock-spark", directory)
    if fault:
        return {}, fault
    jars = sorted((built / "jars").glob("*.jar"))

    def start(stack: contextlib.ExitStack, _engine: Engine, broker: str) -> Hop:
        local = ConnectServer(jars)
        own = cast(LocalServer, Changed(local, optimised)) if compiled else local
        return stack.enter_context(_query(own, trigger, directory / "stock-spark", broker))

    return {AT_LEAST_ONCE: start}, ""


def _fetched(engine: str, project: Path, directory: Path) -> tuple[Path, str]:
    """The folder that Maven has built a project in, or the reason why it has not."""
    connector = f"{engine}'s own connector for Kafka"
    if shutil.which("mvn") is None:
        return directory, f"{connector} is fetched by Maven (mvn), which is not installed"
    built = directory / f"{project.name}-built"
    command = ["mvn", "-q", "-B", "-f", str(project / "pom.xml"), f"-DbuildDirectory={built}", "package"]
    say(f"fetching {connector} ...")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_TIME, check=False)
    except subprocess.TimeoutExpired:
        return built, f"Maven did not fetch {connector} within {MAVEN_TIME:g} s"
    if done.returncode:
        return built, f"Maven cannot fetch {connector}: {done.stdout.strip()[-500:]}"
    return built, ""


@contextlib.contextmanager
def _query(local: LocalServer, trigger: str | None, directory: Path, broker: str) -> Iterator[Hop]:
    """A query that passes messages on with Spark's own source and sink, and their own settings."""
    from pyspark.sql.connect.session import SparkSession

    hop = Hop(AT_LEAST_ONCE, "stock-spark.in", "stock-spark.out", None)
    make_topics(broker, hop.out, hop.back)
    servers = broker.removeprefix("kafka://")
    with server("stock-spark", local, directory, HEAP) as (process, ports):
        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{ports[0]}").create()
        try:
            source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
            messages = source.option("subscribe", hop.out).option("startingOffsets", "earliest").load()
            sink = messages.select("value").writeStream.format("kafka").option("topic", hop.back)
            if trigger is not None:
                sink = sink.trigger(processingTime=trigger)
            sink.option("kafka.bootstrap.servers", servers).option(
                "checkpointLocation", str(directory / "checkpoint")
            ).start()
            yield replace(hop, process=process)
        finally:
            spark.stop()
