"""Starts a Python program for SpecK, run by Flink's ``PythonDriver`` on the JobManager's machine.

::

    python -m speck_flink.launcher ORDER

``ORDER`` is JSON: ``{"probe": true}``, or the program's ``module`` and ``entry``, the ``attempt`` (Flink's id
of the job), the job's ``arguments``, and its ``command_line``: ``--job-name ... --KEY VALUE``, in JSON too,
since Java passes arguments to a process in the encoding of its locale, with ``?`` for what that has not, and
JSON is ASCII.  Errors are passed to Flink as a Java exception, which is in Flink's
answer.
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
FOUND = "SPECK-FOUND "  # before the result of a probe, on a line of its own
MIXED_UP = "SPECK-MIXED-UP"  # Flink returned another program's context
ENDED = "SPECK-ENDED"  # the process ended without a reason
SCRIPT = "__main__"

_JOB_ID = "$internal.pipeline.job-id"
_MAX_LENGTH = 400  # characters of an error


def main(command: Mapping[str, Any]) -> None:
    """Run a command: a probe, or a program."""
    if command.get("probe"):
        answer = FOUND + json.dumps(found())
        print(answer, flush=True)
        if _version():
            _set_failure(answer)  # an error of an earlier program would be reported instead of the output
        sys.exit(3)  # nothing was started
    try:
        _run(command, command["command_line"])
    except SystemExit as error:
        if error.code not in (None, 0):
            _report(error, f"{PROGRAMS}.{command['module']}")
            raise
    # The JobManager keeps no traceback of Python: the coordinator reads this report.
    except BaseException as error:
        _report(error, f"{PROGRAMS}.{command['module']}")
        raise


def found() -> dict[str, str]:
    """Version and path of this Python, and the version of ``apache-flink`` in it (empty: none)."""
    return {"python": platform.python_version(), "program": sys.executable, "pyflink": _version()}


def _version() -> str:
    # Flink's jars alone (apache-flink-libraries) have a folder of that name too.
    if util.find_spec("pyflink") is None or util.find_spec("pyflink.java_gateway") is None:
        return ""
    try:
        return metadata.version("apache-flink")
    except metadata.PackageNotFoundError:
        return "?"  # installed in another way


def _run(command: Mapping[str, Any], arguments: Sequence[str]) -> None:
    _set_failure(ENDED)  # replaces an error of an earlier program
    _keep_environment(command["attempt"])
    name = f"{PROGRAMS}.{command['module']}"
    from . import job as mqtt

    _pickle_by_value(mqtt)
    if command["entry"] == SCRIPT:
        sys.argv = [f"{command['module']}.py", *arguments]
        runpy.run_module(name, run_name=SCRIPT, alter_sys=True)
        return
    module = importlib.import_module(name)
    _pickle_by_value(module)
    job = mqtt.MqttJob(arguments)
    function = getattr(module, command["entry"])
    job.write(function(_payloads(job, function), **command["arguments"]))
    job.execute()


def _payloads(job: Any, function: Any) -> Any:
    """The stream for a function, of the type that it requests by its attribute ``value_type``."""
    kind = getattr(function, "value_type", "text")
    streams = {"text": "texts", "binary": "bytes", "message": "messages"}
    if kind not in streams:
        raise ValueError(f"its value_type is {kind!r} (expected text, binary or message)")
    return getattr(job, streams[kind])()


def _keep_environment(attempt: str) -> None:
    """Check that Flink returns this job's environment, and make it return that from now on."""
    from pyflink.datastream import StreamExecutionEnvironment

    environment = StreamExecutionEnvironment.get_execution_environment()
    settings = environment._j_stream_execution_environment.getConfiguration().toMap()
    if settings.get(_JOB_ID) != attempt:
        raise RuntimeError(MIXED_UP)
    StreamExecutionEnvironment.get_execution_environment = staticmethod(
        lambda configuration=None: environment
    )


def _pickle_by_value(module: Any) -> None:
    # Functions are pickled by value for the TaskManagers, which do not have their modules.
    import cloudpickle

    cloudpickle.register_pickle_by_value(module)


def _report(error: BaseException, module: str) -> None:
    """Pass an error to Flink as text, with the line of the program where it was raised."""
    _set_failure(_message(error) + _place(error, module))


def _set_failure(text: str) -> None:
    """Set the error that Flink reports if this process fails; replaces an earlier one."""
    from pyflink.java_gateway import get_gateway

    java = get_gateway().jvm
    flink = java.org.apache.flink
    cause = java.java.lang.RuntimeException(text)
    # Flink's driver accepts exceptions of this type only.
    failure = flink.client.deployment.application.UnsuccessfulExecutionException(
        None, flink.api.common.JobStatus.FAILED, "the program failed", cause
    )
    flink.client.python.PythonEnvUtils.setPythonException(failure)


def _message(error: BaseException) -> str:
    thrown = getattr(error, "java_exception", None)
    if thrown is not None:
        while thrown.getCause() is not None:
            thrown = thrown.getCause()
        text = f"{thrown.getClass().getSimpleName()}: {thrown.getMessage()}"
    else:
        text = "".join(traceback.format_exception_only(type(error), error))
    text = " ".join(text.split())
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 3]}..."


def _place(error: BaseException, module: str) -> str:
    file = Path(*module.split(".")).with_suffix(".py")
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).parts[-2:] == file.parts]
    if not lines and isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    return f" ({file.name}, line {lines[-1]})" if lines else ""


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
