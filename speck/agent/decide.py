"""The decisions of the agent on an attempt: pure functions of its record and of observations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from speck.agent.run_state import Phase, Record
from speck.core.runtime import JobState

LOOK_AGAIN = 2.0  # s, after which an engine that does not run a job is asked again
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 30.0  # s between two starts that fail
ASK_AGAIN = 5.0  # s between two questions to a broker that is away: an uplink may be back at any time
MOST_REFUSALS = 3  # by the engine, while the coordinator is there to find another way

# A job that has failed is the coordinator's, which may roll an update back, as long as it may come back soon.
ALONE = 60.0  # s without contact, after which the agent starts such a job again
AGAIN, LONGEST_AGAIN = 10.0, 300.0  # s before its second start after a failure, and before any further one
MOST_FAILURES = 10  # in a row, after each of which it is started again
WELL = 300.0  # s without a failure, after which they are no longer in a row


class Step(Enum):
    """The next step with an attempt."""

    KEEP = "keep"
    CONFIRM = "confirm"  # its engine runs it: record that
    START = "start"  # its engine does not run it: prepare its next run
    RETRY = "retry"  # it has failed, without contact: prepare its next run
    WAIT = "wait"  # it has failed too often: note that it waits for the coordinator


@dataclass(frozen=True, slots=True)
class Missed:
    """The time (monotonic, s) since which an engine does not run a job, and the one of the next start.

    ``tries`` is the number of starts that failed.
    """

    since: float
    next_try: float = 0.0
    tries: int = 0

    def waits(self, now: float) -> Missed:
        """While a place is away that a start needs: that is asked again soon, however long it is away."""
        return Missed(self.since, now + ASK_AGAIN, self.tries)

    def at_once(self) -> Missed:
        """While a place has been asked that a start needs, and may answer yet."""
        return Missed(self.since, tries=self.tries)

    def at_contact(self) -> Missed:
        """Once the uplink is back: a place that was away is asked at once, and a start that failed waits."""
        return self if self.tries else self.at_once()

    def failed(self, now: float) -> Missed:
        """After a start that failed: the next one has to wait."""
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self.tries)
        return Missed(self.since, now + pause, self.tries + 1)


def decide(record: Record, seen: JobState, missed: Missed | None, now: float, alone: float = 0.0) -> Step:
    """The next step with an attempt that its engine reports as ``seen``; ``alone`` is s without contact.

    An engine that does not answer is never a reason to start anything, and one look that does not find the
    job is not enough: an engine that starts may list its jobs late.
    """
    if not record.phase.permitted:
        return Step.KEEP
    if seen in (JobState.RUNNING, JobState.STARTING, JobState.PENDING):
        return Step.KEEP if record.phase is Phase.RUNNING else Step.CONFIRM
    if seen not in (JobState.LOST, JobState.FAILED) or record.job.restart != "always" or missed is None:
        return Step.KEEP
    if now < max(missed.since + LOOK_AGAIN, missed.next_try):
        return Step.KEEP
    return Step.START if seen is JobState.LOST else _failed(record, missed, now, alone)


def _failed(record: Record, missed: Missed, now: float, alone: float) -> Step:
    """The next step with an attempt that has failed, and is due."""
    unconfirmed = record.run_handle is None  # found by its id, after the death of the agent that started it
    if alone < ALONE and not (unconfirmed and record.run_id):
        return Step.KEEP
    if unconfirmed:
        return Step.CONFIRM
    if record.failures >= MOST_FAILURES:
        return Step.KEEP if record.phase is Phase.GONE else Step.WAIT
    return Step.RETRY if now >= missed.since + pause_after(record.failures) else Step.KEEP


def pause_after(failures: int) -> float:
    """The time (s) from a failure to the next start, after this number of failures in a row before it."""
    return min(LONGEST_AGAIN, AGAIN * 2 ** (failures - 1)) if failures else 0.0


def superseded(record: Record, fenced: int) -> str:
    """The reason why an attempt ends permanently: a later one, or a deletion, replaced it; empty: none did.

    ``fenced`` is the highest attempt that the fence at the source broker has named, or that is known here.
    """
    if fenced <= record.attempt.number:
        return ""
    return f"attempt {record.attempt.number} was replaced by attempt {fenced}, or the job was deleted"


def given_up(missed: Missed | None, *, in_contact: bool) -> bool:
    """True if the coordinator is to find another way for an attempt that its engine refuses to start."""
    return in_contact and missed is not None and missed.tries >= MOST_REFUSALS


def shown(record: Record, seen: JobState, message: str, *, durable: bool = True) -> tuple[JobState, str]:
    """The state of an attempt for the coordinator, and its message.

    ``durable``: the agent starts the jobs of this engine again.
    """
    if record.phase is Phase.ENDED and seen is JobState.LOST:
        return JobState.FAILED, record.reason
    if seen is JobState.FAILED and record.failures:
        return seen, f"{message} (after {_starts(record.failures)} of it by the agent, without contact)"
    restarts = durable and record.phase.permitted and record.job.restart == "always"
    if restarts and seen is JobState.LOST:
        why = record.reason or "its engine has lost it"
        return JobState.STARTING, f"the agent starts it again: {why}"
    return seen, message


def _starts(number: int) -> str:
    return "1 start" if number == 1 else f"{number} starts"
