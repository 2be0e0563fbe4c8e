"""Refusals of jobs whose Python functions a server cannot run, made before anything of the job is touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from binders.spark.connect.probe import ServerProbe
from binders.spark.query.code_check import mentions_python_functions
from binders.spark.query.packages import required_packages
from speck.core.job import Job
from speck.errors import Rejected

Rehearse = Callable[[Job], Mapping[str, str]]
"""Builds a job's plan; returns the answer of the launcher."""


def check_python(job: Job, probe: ServerProbe, rehearse: Rehearse) -> None:
    """Raise :class:`Rejected` if the server's Python cannot run functions of the job.

    The plan shows if there are any, and what they import.  It is built only if something may be missing.
    """
    if not job.split and not mentions_python_functions(Path(job.job_path)):
        return
    fault = probe.python_fault()
    if fault is None:
        _check_packages(job, probe, rehearse)
    elif nodes := rehearse(job).get("python"):
        what = f"job {job.job_name!r} has Python functions ({nodes})"
        raise Rejected(f"{what}, which {probe.address} cannot run: {fault}", address=probe.address)


def _check_packages(job: Job, probe: ServerProbe, rehearse: Rehearse) -> None:
    """Raise :class:`Rejected` if functions of the job import a package that the server does not have.

    The source shows which packages it may be; code that builds the plan runs here, and not there.
    """
    path = Path(job.job_path)
    lines = required_packages(path, job.entry_class)
    missing = probe.missing_packages(lines) if lines else []
    imported = rehearse(job).get("imports", "").split() if missing else []
    lacking = [f"{name!r} ({path.name}, line {lines[name]})" for name in missing if name in imported]
    if lacking:
        packages = f"{'package' if len(lacking) == 1 else 'packages'} {', '.join(lacking)}"
        raise Rejected(
            f"job {job.job_name!r} has Python functions that import the {packages}, which {probe.address} "
            "does not have (install it for the Python of its workers)",
            address=probe.address,
        )
