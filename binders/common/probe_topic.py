"""The topics of measurements of links."""

from __future__ import annotations

import uuid

from speck.binder import scheme_of


def probe_topic(broker: str) -> str:
    """A topic at a broker without readers: one that is used once, or Kafka's, where topics are created."""
    return "speck.probe" if scheme_of(broker) == "kafka" else f"speck/probe/{uuid.uuid4().hex}"
