"""The room of a Connect server for jobs in real time.

Such a job holds a task slot for each of its partitions for as long as it runs.  A job too many would wait for
ever, and with it all others and the requests of this coordinator, so it is refused.
"""

from __future__ import annotations

from binders.common.reservations import Reservations
from binders.spark.connect.batch_end import call
from binders.spark.connect.grpc_client import ConnectClient
from binders.spark.connect.probe import ServerProbe
from binders.spark.query.real_time import partitions
from speck.core.job import Job
from speck.core.trigger import REAL_TIME
from speck.errors import NoCapacity, Rejected


class RealTimeRoom:
    """The task slots of one server that jobs in real time may hold."""

    def __init__(self, address: str, client: ConnectClient, probe: ServerProbe) -> None:
        self._address, self._client, self._probe = address, client, probe
        self._reservations: Reservations[int] = Reservations()

    def reserve(self, job: Job) -> None:
        """Reserve the slots of a job in real time; those of its own running copy are released first.

        Raises :class:`~speck.errors.NoCapacity`, or :class:`~speck.errors.Rejected` if the server cannot run
        such jobs at all.
        """
        if job.trigger != REAL_TIME:
            return
        threads = self._probe.threads()
        if threads is None:
            raise Rejected(
                f"{self._address} runs its tasks in other processes, and a job with trigger {REAL_TIME!r} in "
                "the server's own (expected a local master, or another trigger)",
                address=self._address,
            )
        needed, room = partitions(job.parallelism), self._room(threads)
        with self._reservations.deciding(job.job_name, needed) as reserved:
            used = self._used()
            used.pop(job.job_name, None)
            taken = sum(used.values()) + sum(n for name, n in reserved.items() if name not in used)
            if taken + needed > room:
                raise NoCapacity(
                    f"{self._address} has no room for job {job.job_name!r} in real time: it needs {needed} "
                    f"task slots, {room} of {threads} are for such jobs, {taken} in use (expected a server "
                    f"with local[{threads + taken + needed - room}], or another trigger)",
                    address=self._address,
                )

    def release(self, job_name: str) -> None:
        """Release the reservation of a job, if it has one."""
        self._reservations.release(job_name)

    def _room(self, threads: int) -> int:
        """All slots but those for other tasks: the default parallelism, if it is lower, or else one."""
        others = self._probe.cores() or threads
        return threads - (others if others < threads else 1)

    def _used(self) -> dict[str, int]:
        """The slots that jobs in real time hold, by the name of the job."""
        answer = call(self._client, self._probe, "partitions")
        counts = dict(each.split("=") for each in answer.split())
        names = {query.run_id: query.name for query in (self._probe.running() or ()) if counts}
        found = dict[str, int]()
        for run, count in counts.items():
            name = names.get(run, run)
            found[name] = found.get(name, 0) + int(count)
        return found
