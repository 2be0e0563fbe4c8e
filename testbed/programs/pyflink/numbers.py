"""Python programs on Flink for tests: functions, and a script that reads no broker but makes numbers."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor


def broken(texts):
    """Fails while it is built."""
    raise ValueError(f"no such street: {texts.get_type()}")


def as_they_are(texts):
    """Forwards the messages; no Python runs in it."""
    return texts


def nothing(texts):
    """Forgets to give its stream back."""
    texts.print()


class Count(KeyedProcessFunction):
    """Counts all numbers, and writes each count to a file."""

    def __init__(self, out):
        self._out = out

    def open(self, runtime_context):
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        time.sleep(0.002)
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        with Path(self._out).open("a", encoding="utf-8") as file:
            file.write(f"{count}\n")
        yield str(count)


def settings():
    """The arguments that follow the wired ones, by name."""
    words = sys.argv[1:]
    return dict(zip(words[::2], words[1::2], strict=True))


if __name__ == "__main__":
    reported = settings()
    if reported.get("--mode") == "exit":
        sys.exit("there is no such street")
    if reported.get("--mode") == "die":
        os._exit(9)
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(1)
    if reported.get("--mode") != "idle":
        numbers = environment.from_source(
            NumberSequenceSource(0, 1_000_000), WatermarkStrategy.no_watermarks(), "numbers"
        )
        counted = numbers.key_by(lambda number: 0, Types.INT()).process(
            Count(reported["--out"]), Types.STRING()
        )
        counted.uid("count").print()
        environment.execute()
