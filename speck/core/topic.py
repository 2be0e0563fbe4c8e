"""MQTT topic names and topic filters (MQTT 5.0, section 4.7)."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_TOPIC_BYTES = 65_535  # section 4.7.3
SQL_TOPICS = "speck/sql/"  # between the jobs of a query with a cut
# Of the records, marks, requests and probes that SpecK and its connectors write (docs/mqtt.md).
OWN_TOPICS = (
    *("speck/fence/", "speck/session/", "speck/writers/", "speck/sink/", "speck/again/"),
    *("speck/drain/", "speck/drained/", "speck/probe/", "speck/control/", "speck/split/", SQL_TOPICS),
)
_NOT_ALLOWED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # sections 1.5.4 and 4.7.3


def name_fault(topic: str) -> str | None:
    """The fault of a topic to write to, as a predicate; ``None`` if it is valid."""
    if any(wildcard in topic for wildcard in "+#"):
        return "has a wildcard (expected a topic without '+' and '#': a job writes one topic)"
    if topic.startswith("$"):
        return "starts with '$' (expected another name: such topics belong to the broker)"
    if (reserved := next((each for each in OWN_TOPICS if topic.startswith(each)), None)) is not None:
        return f"starts with {reserved!r} (expected another name: SpecK itself writes there)"
    return _text_fault(topic)


def filter_fault(topic: str) -> str | None:
    """The fault of a topic filter to read from, as a predicate; ``None`` if it is valid."""
    if topic.startswith("$share/"):
        return "is a shared subscription (expected a plain topic: each job reads through its own session)"
    if topic.startswith(SQL_TOPICS):
        return f"starts with {SQL_TOPICS!r}, between the jobs of a query (expected the topic of its results)"
    levels = topic.split("/")
    if any("+" in level and level != "+" for level in levels):
        return "has a misplaced '+' (expected it alone between slashes, as in 'a/+/b')"
    if "#" in topic and (topic.count("#") > 1 or levels[-1] != "#"):
        return "has a misplaced '#' (expected it alone at the end, as in 'a/#')"
    return _text_fault(topic)


def _text_fault(topic: str) -> str | None:
    if not topic:
        return "is empty (expected a topic)"
    if _NOT_ALLOWED.search(topic):
        return "contains a control character or invalid Unicode"
    if len(topic.encode()) > MAX_TOPIC_BYTES:
        return f"is too long (expected at most {MAX_TOPIC_BYTES:,} bytes of UTF-8)"
    return None


def is_filter(topic: str) -> bool:
    """True if a topic has wildcards."""
    return "+" in topic or "#" in topic


def matches(topic_filter: str, topic: str) -> bool:
    """True if a subscription to ``topic_filter`` receives a message on ``topic`` (section 4.7.1)."""
    if topic.startswith("$") and topic_filter[:1] in ("+", "#"):
        return False  # section 4.7.2
    return _levels_match(topic_filter.split("/"), topic.split("/"))


def _levels_match(pattern: Sequence[str], levels: Sequence[str]) -> bool:
    for index, level in enumerate(pattern):
        if level == "#":
            return True  # including the parent level: 'a/#' matches 'a'
        if index == len(levels) or level not in ("+", levels[index]):
            return False
    return len(pattern) == len(levels)
