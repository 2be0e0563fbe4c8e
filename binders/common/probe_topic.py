"""The topics of measurements of links."""

from __future__ import annotations

import uuid

from speck.binder import scheme_of


def probe_topic(broker: str) -> str:
    """A topic at a broker that nobody reads: one that is used once, or Kafka's, where topics are made."""
    return "speck.probe" if scheme_of(broker) == "kafka" else f"speck/probe/{uuid.uuid4().hex}"
