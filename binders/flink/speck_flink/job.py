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

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


class MqttJob:
    """The Python wrapper of the connector's class of the same name.

    Source, sink, session, fence, logins and stamps are set up.  All operators have parallelism 1, so that
    messages keep their order.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        """``arguments`` are those of the program, without its name."""
        gateway = get_gateway()
        self.environment = StreamExecutionEnvironment.get_execution_environment()
        array = gateway.new_array(gateway.jvm.java.lang.String, len(arguments))
        for index, argument in enumerate(arguments):
            array[index] = argument
        self._java = _connector(gateway).of(self.environment._j_stream_execution_environment, array)
        self.name: str = self._java.name()
        self.parallelism: int = self._java.parallelism()
        """The configured parallelism, to be set on operators behind a ``key_by``."""
        self.timezone: str = self._java.timezone().getId()
        """The IANA name of the zone of local times in the job."""

    def texts(self) -> DataStream:
        """The payloads of the messages of the source topic, as text, in order.

        A payload that is not UTF-8 ends the job with an error that names the message.  Only :meth:`write` of
        this stream as it is passes on any payload.
        """
        return DataStream(self._java.texts())

    def bytes(self) -> DataStream:
        """The payloads of the messages of the source topic, as ``bytes``, in order."""
        return DataStream(self._java.bytes())

    def messages(self) -> DataStream:
        """The messages of the source topic, in order.

        Rows of ``topic`` (``str``), ``value`` (``bytes``), ``key`` (``str`` or ``None``) and ``timestamp``
        (time of receipt, milliseconds since 1970).
        """
        return DataStream(self._java.rows())

    def argument(self, name: str, otherwise: str | None = None) -> str | None:
        """An argument of the program's own."""
        found = self._java.argument(name, otherwise)
        return None if found is None else str(found)

    def write(self, elements: DataStream) -> None:
        """Write to the sink topic: texts, ``bytes`` as they are, other elements by ``str``."""
        if not isinstance(elements, DataStream):
            raise TypeError(f"a {type(elements).__name__} cannot be written (expected a DataStream)")
        if elements.get_type() == Types.STRING():
            self._java.write(elements._j_data_stream)
            return
        if elements.get_type() != BYTES:
            parallelism = elements._j_data_stream.getParallelism()
            elements = elements.map(_content, BYTES).set_parallelism(parallelism)
        self._java.writeBytes(elements._j_data_stream)

    def execute(self) -> None:
        """Run the program.  An argument that was given and never read is an error."""
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


def _content(element: object) -> bytes:
    return bytes(element) if isinstance(element, bytes | bytearray) else str(element).encode()
