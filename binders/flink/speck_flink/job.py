"""A PyFlink program that reads one topic and writes one, as SpecK runs it.

::

    from speck_flink.job import MqttJob

    job = MqttJob(sys.argv[1:])
    word = job.argument("word", "warning")
    job.write(job.texts().filter(lambda text: word in text))
    job.execute()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyflink.common import Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway

CONNECTOR = "io.speck.flink.mqtt.MqttJob"


class MqttJob:
    """The connector's class of the same name, for Python.

    Source, sink, session, fence, logins and stamps are ready made.  All operators have parallelism 1, so that
    messages keep their order.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        """``arguments`` are those of the program, without its name."""
        gateway = get_gateway()
        self.environment = StreamExecutionEnvironment.get_execution_environment()
        words = gateway.new_array(gateway.jvm.java.lang.String, len(arguments))
        for place, word in enumerate(arguments):
            words[place] = word
        self._java = _connector(gateway).of(self.environment._j_stream_execution_environment, words)
        self.name: str = self._java.name()
        self.parallelism: int = self._java.parallelism()
        """The parallelism that was asked for, to be set on operators behind a ``key_by``."""

    def texts(self) -> DataStream:
        """The contents of the messages of the source topic, as text, in their order."""
        return DataStream(self._java.texts())

    def argument(self, name: str, otherwise: str | None = None) -> str | None:
        """An argument of the program's own."""
        found = self._java.argument(name, otherwise)
        return None if found is None else str(found)

    def write(self, elements: DataStream) -> None:
        """Write to the sink topic; what is no text is written as ``str`` has it."""
        if not isinstance(elements, DataStream):
            raise TypeError(f"a {type(elements).__name__} cannot be written (expected a DataStream)")
        if elements.get_type() != Types.STRING():
            parallelism = elements._j_data_stream.getParallelism()
            elements = elements.map(_text, Types.STRING()).set_parallelism(parallelism)
        self._java.write(elements._j_data_stream)

    def execute(self) -> None:
        """Run it.  An argument that was given and never asked for is an error."""
        self._java.ready()
        self.environment.execute(self.name)


def _connector(gateway: Any) -> Any:
    found = gateway.jvm
    for part in CONNECTOR.split("."):
        found = getattr(found, part)
    if not hasattr(found, "of"):
        raise ImportError(
            "this cluster has no SpecK connector (put flink-mqtt.jar into the cluster's lib folder)"
        )
    return found


def _text(element: object) -> str:
    return str(element)
