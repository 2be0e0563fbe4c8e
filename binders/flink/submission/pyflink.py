"""Python programs on Flink: the request that runs one, and the Python on the JobManager's machine.

Flink's own ``PythonDriver`` starts Python beside the JobManager and waits for it.  The driver parses options
in front of the program's arguments and ends the whole JobManager on an unknown option, so the first argument
after the options is one that cannot be parsed as an option.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from binders.flink.rest.client import FlinkRest
from binders.flink.rest.requests import FlinkRefused
from binders.flink.rest.stack_trace import root_cause
from binders.flink.submission.code_check import SCRIPT
from binders.flink.submission.job_config import program_arguments
from binders.flink.submission.package import module_of
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Attempt
from speck.errors import OutcomeUnknown

DRIVER = "org.apache.flink.client.python.PythonDriver"
_LAUNCHER = "speck_flink.launcher"
_MIXED_UP = "SPECK-MIXED-UP"
# Flink's message for a program whose context was removed by another program that ended.
_NO_CONTEXT = "LocalStreamEnvironment cannot be used when submitting a program through a client"
# The end of Flink's call for a program while an earlier one still starts: its JobManager has one at a time.
_OCCUPIED = "PythonEnvUtils.setGatewayServer"
_FOUND = re.compile(r"^(?:.*\s)?SPECK-FOUND (?P<found>\{.*\})\s*$", re.MULTILINE)
_NO_PROGRAM = re.compile(r"Cannot run program \"(?P<program>[^\"]*)\"")
_NO_JAR = re.compile(r"Found 0 flink-python|ClassNotFoundException: org\.apache\.flink\.client\.python")
_ENDED = re.compile("SPECK-ENDED|Python process exits with code")

# The settings of the folder of uploaded jars on the JobManager's machine, and its subfolder.
_UPLOADS, _TEMPORARY, _FOLDER = "web.upload.dir", "web.tmpdir", "flink-web-upload"


@dataclass(frozen=True)
class FoundPython:
    """A JobManager's Python: its version, path, and version of PyFlink (empty: none, ``?``: unknown)."""

    python: str
    program: str
    pyflink: str


def python_run_body(
    body: Mapping[str, Any], archive: str, job: Job, attempt: Attempt, inventory: Inventory
) -> dict[str, Any]:
    """The body of the request that runs a Python program, made from a jar's; ``archive`` is its path."""
    # A function receives its arguments with their types, and a script all of them as text.
    textual = job if job.entry_class == SCRIPT else replace(job, arguments={})
    order: dict[str, Any] = {
        "module": module_of(Path(job.job_path)),
        "entry": job.entry_class,
        "attempt": attempt.id,
        "arguments": dict(job.arguments),
        "command_line": program_arguments(textual, attempt, inventory),
    }
    return {**body, **_launch(archive, order)}


def path_of(rest: FlinkRest, jar: str) -> str:
    """The path of an uploaded jar on the JobManager's machine."""
    settings = rest.settings()  # not cached: a restarted JobManager has another directory
    root = settings.get(_UPLOADS) or settings.get(_TEMPORARY, "")
    if not root:
        raise OutcomeUnknown(
            f"{rest.address} does not report its folder of uploaded files ({_UPLOADS})", address=rest.address
        )
    return f"{root.rstrip('/')}/{_FOLDER}/{jar}"


def probe(rest: FlinkRest, jar: str) -> FoundPython:
    """Find the Python on the JobManager's machine, by a jar of any Python program.  Starts no job.

    Raises :class:`~binders.flink.rest.requests.FlinkRefused` if there is none.
    """
    try:
        rest.plan(jar, _launch(path_of(rest, jar), {"probe": True}))
    except FlinkRefused as error:
        found = _FOUND.search(error.trace)
        if found is None:
            raise
        answer = json.loads(found["found"])
        return FoundPython(answer["python"], answer["program"], answer["pyflink"])
    raise OutcomeUnknown(f"{rest.address} did not run its Python", address=rest.address)


def fault_of(found: FoundPython, flink: str) -> str | None:
    """The reason why a Python cannot run programs for a cluster of this version; ``None`` if it can."""
    where = f"Python {found.python} ({found.program}) of the JobManager"
    expected = (
        f"expected apache-flink=={flink} there and on the TaskManagers, or another Python by the cluster's "
        "python.client.executable and python.executable"
    )
    if not found.pyflink:
        return f"the {where} has no apache-flink ({expected})"
    if found.pyflink != "?" and _minor(found.pyflink) != _minor(flink):
        return f"the {where} has apache-flink {found.pyflink}, and the cluster is Flink {flink} ({expected})"
    return None


def is_mixed_up(trace: str) -> bool:
    """True if a program was not started because a program of another client interfered."""
    return _MIXED_UP in trace or _NO_CONTEXT in trace


def is_occupied(trace: str) -> bool:
    """True if a program was not started because the JobManager still starts another one."""
    return _OCCUPIED in trace


def reason(trace: str) -> str:
    """The reason why a Python program was not started, in one line."""
    if is_mixed_up(trace) or is_occupied(trace):
        return "programs of other clients were started there at the same time (try again)"
    if _NO_JAR.search(trace) is not None:
        return "the opt folder of its JobManager has no flink-python jar"
    if (none := _NO_PROGRAM.search(trace)) is not None:
        return (
            f"there is no program {none['program']!r} on the JobManager's machine "
            "(expected python.client.executable of the cluster to name a Python with apache-flink)"
        )
    if "No jobs included in application" in trace:
        return "the program ended without starting a job (expected one call of execute)"
    if _ENDED.search(trace) is not None:
        return "its Python process ended without a reason (see the JobManager's log)"
    return root_cause(trace).removeprefix("RuntimeException: ")


def _launch(archive: str, order: Mapping[str, Any]) -> dict[str, Any]:
    options = ["-pyfs", archive, "-pym", _LAUNCHER]
    return {"entryClass": DRIVER, "programArgsList": [*options, json.dumps(order)]}


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
