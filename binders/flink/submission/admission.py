"""What a cluster must be and have before a job is started there: pure decisions, told in a sentence."""

from __future__ import annotations

from binders.flink.healthcheck import EXPECTED, is_known
from binders.flink.submission.job_config import CHECKPOINT_KEYS, SAVEPOINT_KEYS, Places


def version_fault(version: str) -> str | None:
    """Why a cluster of this version is not used; ``None`` when it is."""
    return None if is_known(version) else f"is Flink {version} ({EXPECTED})"


def places_fault(at: Places) -> str | None:
    """Why a job cannot keep its state at a cluster with these places; ``None`` when it can.

    Checkpoints in the memory of a JobManager go with it, and what they reflect is acknowledged by then.
    """
    for what, place, keys in (
        ("savepoint", at.savepoints, SAVEPOINT_KEYS),
        ("checkpoint", at.checkpoints, CHECKPOINT_KEYS),
    ):
        if not place:
            return (
                f"has no place for {what}s (expected {what}_dir of the site, "
                f"or {keys[0]} of the cluster; or upgrade: stateless)"
            )
    return None
