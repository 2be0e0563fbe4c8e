"""Complaints that servers of both kinds have in common: another version, and rejected requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import version

from speck.core.runtime import Complaint
from speck.errors import Rejected


def other_version(theirs: str) -> Iterator[Complaint]:
    ours = version("pyspark")
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        yield Complaint(
            f"it is Spark {theirs}, and SpecK supports {ours}: its jobs are rejected",
            f"install Spark {ours} there, or pyspark {theirs} here",
        )


def rejections(ask: Callable[[], object]) -> Iterator[Complaint]:
    try:
        ask()
    except Rejected as error:
        yield Complaint(str(error))
