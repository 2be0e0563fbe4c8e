"""The names of topics that jobs may use at Kafka, and those that SpecK itself has there."""

from __future__ import annotations

import re

CONTROL = "speck.control"
PROBE = "speck.probe"

_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


def topic_fault(topic: str) -> str | None:
    """The fault of a topic as a predicate; ``None`` if a job can use it."""
    if not _LEGAL.match(topic) or topic in (".", ".."):
        return "is not a Kafka topic (expected 1 to 249 letters, digits, '.', '_' and '-', no wildcards)"
    if topic.startswith(("__", "speck.")):
        return "is reserved (expected a topic that begins with neither '__' nor 'speck.')"
    return None
