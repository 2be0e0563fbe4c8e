"""The processor time of a Connect server that runs on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

import psutil

from binders.common.processor import ProcessorShare
from binders.spark.connect.grpc_client import ConnectClient
from binders.spark.connect.probe import ServerProbe
from binders.spark.connect.protocol import pb2
from speck.core.profile import JobSample
from speck.errors import BinderError

AGAIN = 60.0  # s, after which a server whose process was not found is asked for it again


class ServerProcess:
    """The process of one server: it reports its id, and is believed if that process listens at its port.

    With another master than a local one the work is done elsewhere, and the server's time says nothing.
    Safe for several threads.
    """

    def __init__(self, address: str, client: ConnectClient, probe: ServerProbe) -> None:
        self._port = urlsplit(address).port
        self._client, self._probe = client, probe
        self._guard = threading.Lock()  # one of the threads looks for the process, which asks the server
        self._process: psutil.Process | None = None
        self._asked = float("-inf")  # monotonic time, s
        self._share = ProcessorShare()

    def shared(self, samples: Mapping[str, JobSample], worked: Mapping[str, float]) -> dict[str, JobSample]:
        """The samples of jobs, by id, with the server's processor time per work of their batches.

        ``worked`` is that of each so far, s.
        """
        if not samples:
            return {}
        share = self._share.add(time.monotonic(), self.seconds(), dict(worked))
        return {key: replace(each, processor_share=share) for key, each in samples.items()}

    def seconds(self) -> float | None:
        """The processor time of the server and of its Python workers so far, s; ``None``: not known."""
        with self._guard, suppress(psutil.Error):
            process = self._found()
            return None if process is None else _seconds(process)
        return None

    def _found(self) -> psutil.Process | None:
        if self._process is not None and self._process.is_running():
            return self._process
        self._process = None
        if time.monotonic() - self._asked >= AGAIN:
            self._asked = time.monotonic()
            with suppress(BinderError):
                self._process = self._asked_for()
        return self._process

    def _asked_for(self) -> psutil.Process | None:
        if not self._probe.setting("spark.master").startswith("local"):
            return None
        own = pb2.Relation(sql=pb2.SQL(query="SELECT java_method('java.lang.ProcessHandle', 'current')"))
        answer = self._probe.ask(lambda session: self._client.text(session, own))
        return listening(int(answer), self._port) if answer.isdecimal() else None


def listening(pid: int, port: int | None) -> psutil.Process | None:
    """The process with this id if it listens at a port of this machine.  Raises :class:`psutil.Error`."""
    process = psutil.Process(pid)
    connections = process.net_connections("tcp")
    ports = {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}
    return process if port in ports else None


def _seconds(process: psutil.Process) -> float:
    """The time of a process and its children; that of children which have ended is their parent's."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += sum(each.cpu_times()[:4])  # its own, and of ended children: user and system each
    return total
