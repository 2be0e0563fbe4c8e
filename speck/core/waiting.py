"""Messages that wait in a session, in words."""

from __future__ import annotations

MOST_COUNTED = 1000  # messages of a session of MQTT: its broker has no count of them, so each one is read


def count_text(waiting: int | None) -> str:
    """The number of messages in words; ``None``: it is not known, :data:`MOST_COUNTED`: or more."""
    if waiting is None:
        return "messages"
    if waiting == MOST_COUNTED:
        return f"{waiting} or more messages"
    return f"{waiting} message{'s' * (waiting != 1)}"


def exact_text(number: int) -> str:
    """A number of messages that a broker has counted."""
    return f"{number:,} message{'s' * (number != 1)}"


def waiting_text(waiting: int | None, topic: str, broker: str) -> str:
    """The messages that wait at a topic of a broker, in words."""
    if waiting is None:
        return f"the messages that wait at {topic!r} of {broker}"
    return f"{count_text(waiting)} wait{'s' * (waiting == 1)} at {topic!r} of {broker}"
