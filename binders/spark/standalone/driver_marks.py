"""The marks of a driver: its attempt, job, store and stamps, as Spark properties of its command line.

The worker writes the command line to the head of the driver's log, so that it contains no secret.  An
older driver may have the marks ``attempt`` and ``job`` only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from urllib.parse import quote, unquote

from binders.spark.query.marks import Marks

_PREFIX = "spark.speck."
_MARK = re.compile(r"-Dspark\.speck\.(?P<name>[a-z]+)=(?P<value>[A-Za-z0-9._~%/:-]+)")
_ATTEMPT = re.compile("[0-9a-f]{32}")

FOREIGN = Marks()  # of a driver that is not SpecK's


def properties_of(marks: Marks) -> dict[str, str]:
    """The marks as Spark properties; a character that a command line may quote is percent-encoded."""
    return {f"{_PREFIX}{name}": quote(value, safe="/:") for name, value in marks.present().items()}


def marks_in(command: str) -> Marks:
    """The marks on the command line of a driver; :data:`FOREIGN` without an attempt and a job."""
    written: Mapping[str, str] = {each["name"]: unquote(each["value"]) for each in _MARK.finditer(command)}
    marks = Marks(**{each.name: written.get(each.name, "") for each in fields(Marks)})
    return marks if _ATTEMPT.fullmatch(marks.attempt) and marks.job else FOREIGN
