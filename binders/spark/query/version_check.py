"""Complaints that servers of both kinds have in common: another version, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyspark

from speck.core.runtime import Complaint
from speck.errors import Rejected


def other_version(theirs: str) -> Iterator[Complaint]:
    ours = pyspark.__version__
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        yield Complaint(
            f"it is Spark {theirs}, and SpecK speaks {ours}: its jobs are refused",
            f"install Spark {ours} there, or pyspark {theirs} here",
        )


def refusals(ask: Callable[[], object]) -> Iterator[Complaint]:
    try:
        ask()
    except Rejected as error:
        yield Complaint(str(error))
