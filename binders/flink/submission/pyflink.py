"""Python programs: how Flink is told to run one, and what the JobManager's machine has for it.

Flink's own ``PythonDriver`` starts Python beside the JobManager and waits for it.  The driver takes options
in front of the program's arguments and ends the whole JobManager when it does not understand them, so the
first argument after the options is one that cannot be taken for an option.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from binders.flink.rest.client import FlinkRefused, FlinkRest
from binders.flink.rest.stack_trace import root_cause
from binders.flink.submission.code_check import SCRIPT
from binders.flink.submission.job_config import program_arguments
from binders.flink.submission.package import module_of
from speck.core.job import Job
from speck.core.runtime import Attempt
from speck.errors import OutcomeUnknown

DRIVER = "org.apache.flink.client.python.PythonDriver"
_LAUNCHER = "speck_flink.launcher"
_MIXED_UP = "SPECK-MIXED-UP"
# What Flink says of a program that has no context any more: another one that ended took it along.
_NO_CONTEXT = "LocalStreamEnvironment cannot be used when submitting a program through a client"
_FOUND = re.compile(r"^(?:.*\s)?SPECK-FOUND (?P<found>\{.*\})\s*$", re.MULTILINE)
_NO_PROGRAM = re.compile(r"Cannot run program \"(?P<program>[^\"]*)\"")
_NO_JAR = re.compile(r"Found 0 flink-python|ClassNotFoundException: org\.apache\.flink\.client\.python")
_ENDED = re.compile("SPECK-ENDED|Python process exits with code")

# Where uploaded jars are on the JobManager's machine, and the folder below the second of them.
_UPLOADS, _TEMPORARY, _FOLDER = "web.upload.dir", "web.tmpdir", "flink-web-upload"


@dataclass(frozen=True)
class FoundPython:
    """A JobManager's Python: its version, path, and version of PyFlink (empty: none, ``?``: unknown)."""

    python: str
    program: str
    pyflink: str


def driven(body: Mapping[str, Any], place: str, job: Job, attempt: Attempt) -> dict[str, Any]:
    """The body of the request that runs a Python program, out of a jar's; ``place`` is its archive."""
    order: dict[str, Any] = {
        "module": module_of(Path(job.job_path)),
        "entry": job.entry_class,
        "attempt": attempt.id,
        "arguments": dict(job.arguments),
    }
    # A function is given its arguments with their types, and a script all of them as words.
    told = job if job.entry_class == SCRIPT else replace(job, arguments={})
    return {**body, **_launch(place, order, *program_arguments(told, attempt))}


def place_of(rest: FlinkRest, jar: str) -> str:
    """The path of an uploaded jar on the JobManager's machine."""
    settings = rest.settings()  # asked anew: a JobManager that was started again has another directory
    root = settings.get(_UPLOADS) or settings.get(_TEMPORARY, "")
    if not root:
        raise OutcomeUnknown(
            f"{rest.address} does not tell where it keeps uploaded files ({_UPLOADS})", address=rest.address
        )
    return f"{root.rstrip('/')}/{_FOLDER}/{jar}"


def probe(rest: FlinkRest, jar: str) -> FoundPython:
    """Ask for the Python beside the JobManager; ``jar`` is any Python program's.  Starts no job.

    Raises :class:`~binders.flink.rest.client.FlinkRefused` when there is none.
    """
    try:
        rest.plan(jar, _launch(place_of(rest, jar), {"probe": True}))
    except FlinkRefused as error:
        found = _FOUND.search(error.trace)
        if found is None:
            raise
        told = json.loads(found["found"])
        return FoundPython(told["python"], told["program"], told["pyflink"])
    raise OutcomeUnknown(f"{rest.address} did not ask its Python", address=rest.address)


def fault_of(found: FoundPython, flink: str) -> str | None:
    """Say why a Python cannot run programs for a cluster of this version of Flink; ``None`` if it can."""
    where = f"Python {found.python} ({found.program}) of the JobManager"
    wanted = (
        f"expected apache-flink=={flink} there and on the TaskManagers, or another Python by the cluster's "
        "python.client.executable and python.executable"
    )
    if not found.pyflink:
        return f"the {where} has no apache-flink ({wanted})"
    if found.pyflink != "?" and _minor(found.pyflink) != _minor(flink):
        return f"the {where} has apache-flink {found.pyflink}, and the cluster is Flink {flink} ({wanted})"
    return None


def mixed_up(trace: str) -> bool:
    """Whether a program was not started since another one, which somebody else started, came between."""
    return _MIXED_UP in trace or _NO_CONTEXT in trace


def reason(trace: str) -> str:
    """Why a Python program was not started, in a line."""
    if _MIXED_UP in trace:
        return "other programs were being started there by others, several times (try again)"
    if _NO_JAR.search(trace) is not None:
        return "there is no flink-python jar in the opt folder of its JobManager"
    if (none := _NO_PROGRAM.search(trace)) is not None:
        return (
            f"there is no program {none['program']!r} on the JobManager's machine "
            "(expected python.client.executable of the cluster to name a Python with apache-flink)"
        )
    if "No jobs included in application" in trace:
        return "the program ended and started no job (expected one call of execute)"
    if _ENDED.search(trace) is not None:
        return "its Python process ended and did not say why (the JobManager's log tells more)"
    return root_cause(trace).removeprefix("RuntimeException: ")


def _launch(place: str, order: Mapping[str, Any], *arguments: str) -> dict[str, Any]:
    options = ["-pyfs", place, "-pym", _LAUNCHER]
    return {"entryClass": DRIVER, "programArgsList": [*options, json.dumps(order), *arguments]}


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
