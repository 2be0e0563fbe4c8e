"""Starts a Python program for SpecK, run by Flink's ``PythonDriver`` on the JobManager's machine.

::

    python -m speck_flink.launcher ORDER --job-name ... --KEY VALUE

``ORDER`` is JSON: ``{"probe": true}``, or the program's ``module`` and ``entry``, the ``attempt`` (Flink's id
of the job), and the job's ``arguments``.  What goes wrong is handed to Flink as a Java exception, which Flink
answers.
"""

from __future__ import annotations

import importlib
import json
import platform
import runpy
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import metadata, util
from pathlib import Path
from typing import Any

PROGRAMS = "speck_program"
FOUND = "SPECK-FOUND "  # before what a probe found, on a line of its own
MIXED_UP = "SPECK-MIXED-UP"  # another program's context was handed out
ENDED = "SPECK-ENDED"  # the process ended and did not say why
SCRIPT = "__main__"

_JOB_ID = "$internal.pipeline.job-id"
_MOST = 400  # characters of an error


def main(order: Mapping[str, Any], arguments: Sequence[str]) -> None:
    """Do what is ordered."""
    if order.get("probe"):
        print(FOUND + json.dumps(found()), flush=True)
        sys.exit(3)  # nothing was started
    try:
        _run(order, arguments)
    except SystemExit as error:
        if error.code not in (None, 0):
            _tell(error, f"{PROGRAMS}.{order['module']}")
            raise
    except BaseException as error:
        _tell(error, f"{PROGRAMS}.{order['module']}")
        raise


def found() -> dict[str, str]:
    """What this Python is, and the version of ``apache-flink`` in it (empty: none)."""
    return {"python": platform.python_version(), "program": sys.executable, "pyflink": _version()}


def _version() -> str:
    # Flink's jars alone (apache-flink-libraries) have a folder of that name too.
    if util.find_spec("pyflink") is None or util.find_spec("pyflink.java_gateway") is None:
        return ""
    try:
        return metadata.version("apache-flink")
    except metadata.PackageNotFoundError:
        return "?"  # put there in another way


def _run(order: Mapping[str, Any], arguments: Sequence[str]) -> None:
    _hand_over(ENDED)  # an error of an earlier program may be there still
    _keep_environment(order["attempt"])
    name = f"{PROGRAMS}.{order['module']}"
    from . import job as wired

    _send_by_value(wired)
    if order["entry"] == SCRIPT:
        sys.argv = [f"{order['module']}.py", *arguments]
        runpy.run_module(name, run_name=SCRIPT, alter_sys=True)
        return
    module = importlib.import_module(name)
    _send_by_value(module)
    job = wired.MqttJob(arguments)
    job.write(getattr(module, order["entry"])(job.texts(), **order["arguments"]))
    job.execute()


def _keep_environment(attempt: str) -> None:
    """See that Flink hands out this job's environment, now and from now on."""
    from pyflink.datastream import StreamExecutionEnvironment

    environment = StreamExecutionEnvironment.get_execution_environment()
    settings = environment._j_stream_execution_environment.getConfiguration().toMap()
    if settings.get(_JOB_ID) != attempt:
        raise RuntimeError(MIXED_UP)
    StreamExecutionEnvironment.get_execution_environment = staticmethod(
        lambda configuration=None: environment
    )


def _send_by_value(module: Any) -> None:
    # Functions go to the TaskManagers whole: the modules that they are from are not there.
    import cloudpickle

    cloudpickle.register_pickle_by_value(module)


def _tell(error: BaseException, module: str) -> None:
    """Give Flink the error in words, with the line of the program where it arose."""
    _hand_over(_words(error) + _place(error, module))


def _hand_over(text: str) -> None:
    """Give Flink what it answers if this process ends with an error, instead of what it was given before."""
    from pyflink.java_gateway import get_gateway

    java = get_gateway().jvm
    flink = java.org.apache.flink
    cause = java.java.lang.RuntimeException(text)
    # Of all that is handed over, Flink's driver keeps what holds an exception of this type.
    failure = flink.client.deployment.application.UnsuccessfulExecutionException(
        None, flink.api.common.JobStatus.FAILED, "the program failed", cause
    )
    flink.client.python.PythonEnvUtils.setPythonException(failure)


def _words(error: BaseException) -> str:
    thrown = getattr(error, "java_exception", None)
    if thrown is not None:
        while thrown.getCause() is not None:
            thrown = thrown.getCause()
        text = f"{thrown.getClass().getSimpleName()}: {thrown.getMessage()}"
    else:
        text = "".join(traceback.format_exception_only(type(error), error))
    text = " ".join(text.split())
    return text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."


def _place(error: BaseException, module: str) -> str:
    file = Path(*module.split(".")).with_suffix(".py")
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).parts[-2:] == file.parts]
    if not lines and isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    return f" ({file.name}, line {lines[-1]})" if lines else ""


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
