"""Splits of a keyed aggregation over workers: their jobs, the judgement of a sample, measured work."""

from __future__ import annotations

from speck.core.split.partitioners import MOST_COMBINERS, PARTITIONERS, Option
from speck.core.split.parts import (
    DEFAULT_AT_SITES,
    DEFAULT_IN_ONE_JOB,
    METRICS_SLIDE_US,
    METRICS_WINDOW_US,
    MOST_NAME,
    MOST_SLIDES,
    SPLIT_TOPICS,
    Part,
    Place,
    Role,
    Split,
    control_topic,
    expand,
    groups,
    part_name,
    part_names,
    part_of,
    shown_job,
    split_topic,
    written_topics,
)

__all__ = [
    "DEFAULT_AT_SITES",
    "DEFAULT_IN_ONE_JOB",
    "METRICS_SLIDE_US",
    "METRICS_WINDOW_US",
    "MOST_COMBINERS",
    "MOST_NAME",
    "MOST_SLIDES",
    "PARTITIONERS",
    "SPLIT_TOPICS",
    "Option",
    "Part",
    "Place",
    "Role",
    "Split",
    "control_topic",
    "expand",
    "groups",
    "part_name",
    "part_names",
    "part_of",
    "shown_job",
    "split_topic",
    "written_topics",
]
