"""The errors of launched code, by the answers of the launcher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from speck.core.job import Job, job_title
from speck.errors import BinderError, OutcomeUnknown, Rejected


@dataclass(frozen=True)
class Aim:
    """The words for a launch: without an answer, of its result, and when it is rejected."""

    unanswered: str
    result: str
    rejected: str


START = Aim("may or may not have been started by", "a started query", "cannot be started on")
BUILD = Aim("was not analysed by", "a plan", "cannot be built on")


def launch_error(job: Job, aim: Aim, answer: Mapping[str, str], address: str, timeout: float) -> BinderError:
    """The error for an answer of :meth:`~binders.spark.connect.launcher.Launcher.launch` that is no success.

    ``timeout`` is that of the launch, s.
    """
    kind, message = answer["kind"], answer.get("message", "")
    if kind == "no_answer":
        return OutcomeUnknown(f"{job_title(job)} {aim.unanswered} {address}: {message}", address=address)
    if kind == "timeout":
        message = f"its code did not come to {aim.result} in {timeout:g} s"
    elif kind == "died":
        message = f"its code ended the process that ran it ({message})"
    elif "SESSION_CLOSED" in message:
        message = "this attempt has ended before (expected a new attempt)"
    return Rejected(f"{job_title(job)} {aim.rejected} {address}: {message}", address=address)
