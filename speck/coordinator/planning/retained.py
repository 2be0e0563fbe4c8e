"""Remarks on results that an engine keeps for a broker that does not answer and that its job leaves."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from speck.core.job import Scalar
from speck.core.plan import Plan, Stop, former_of
from speck.core.waiting import exact_text

RETAINED = "retained"  # of writers: messages that the broker has acknowledged, and may not have saved


def retained_notes(
    plan: Plan, away: Collection[str], details: Mapping[str, Mapping[str, Scalar]]
) -> dict[str, str]:
    """A remark on each job of a plan that leaves a broker of its results which is ``away``, by job name.

    The broker may have lost what it had not saved, as in a power cut.  ``away`` are addresses, ``details``
    the further metrics of jobs by name.
    """
    found = {}
    for action in plan.actions:
        former, name = former_of(action), action.job.job_name
        other = "" if isinstance(action, Stop) else action.job.sink_broker
        if former is None or former.sink_broker == other or former.sink_broker not in away:
            continue
        count = details.get(name, {}).get(RETAINED)
        if isinstance(count, int | float) and count > 0:
            found[name] = _note(int(count), former.sink_broker, other)
    return found


def _note(count: int, broker: str, other: str) -> str:
    same = f", or at {other} if that is the same broker" if other else ""
    return (
        f"{exact_text(count)} that {broker} may have lost, since it does not answer, are kept by the engine, "
        f"and sent once it answers{same} (docs/faults.md, A broker that forgets)"
    )
