"""What a cluster must be and have before a job is started there: pure decisions, told in a sentence."""

from __future__ import annotations

from binders.flink.orders import CHECKPOINT_KEYS, SAVEPOINT_KEYS, Places

VERSIONS = ((1, 20), (2, 0))  # the oldest of each major version


def version_fault(version: str) -> str | None:
    """Why a cluster of this version is not used; ``None`` when it is."""
    major, minor = (int(part) if part.isdigit() else 0 for part in [*version.split("."), "0"][:2])
    if any(major == oldest[0] and minor >= oldest[1] for oldest in VERSIONS):
        return None
    return f"is Flink {version} (expected Flink 2, or 1.20)"


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
