"""Requirements on a cluster before a job is started there: pure decisions, each with a reason."""

from __future__ import annotations

from collections.abc import Mapping

from binders.flink.healthcheck import EXPECTED, accepts_jars, is_supported
from binders.flink.submission.job_config import CHECKPOINT_KEYS, SAVEPOINT_KEYS, StateDirectories


def version_fault(version: str) -> str | None:
    """The reason why a cluster of this version is not used; ``None`` if it is."""
    return None if is_supported(version) else f"is Flink {version} ({EXPECTED})"


def settings_fault(settings: Mapping[str, str]) -> str | None:
    """The reason why a cluster with these settings accepts no job; ``None`` if it may."""
    if accepts_jars(settings):
        return None
    return (
        "accepts no jobs over REST: web.submit.enable is false (expected true in the cluster's configuration)"
    )


def directories_fault(at: StateDirectories) -> str | None:
    """The reason why a job cannot keep its state at a cluster with these directories; ``None`` if it can.

    Checkpoints in the memory of a JobManager are lost with it, and their messages are acknowledged by then.
    """
    for what, place, keys in (
        ("savepoint", at.savepoints, SAVEPOINT_KEYS),
        ("checkpoint", at.checkpoints, CHECKPOINT_KEYS),
    ):
        if not place:
            return (
                f"has no {what} directory (expected {what}_dir of the site, "
                f"or {keys[0]} of the cluster; or upgrade: stateless)"
            )
    return None
