"""Pure parts of the Flink binder for Python programs."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from binders.flink.local.server import PYTHON_VARIABLE, python_program
from binders.flink.rest.requests import FlinkRefused
from binders.flink.rest.stack_trace import root_cause
from binders.flink.submission import launcher, pyflink
from binders.flink.submission.code_check import check_code
from binders.flink.submission.package import module_of, package_of
from binders.flink.submission.submission_lock import SubmissionLock
from speck.core.inventory import Inventory
from speck.errors import LocalError
from speck.testing import attempt_of, eventually
from testbed.benches.examples import job

PROGRAM_TEXT = "import sys\n\n\ndef clean(texts, word='a'):\n    return texts\n\n\nclass Cleaner:\n    pass\n"


@pytest.mark.parametrize(
    ("text", "entry_class", "fault"),
    [
        (PROGRAM_TEXT, "clean", None),
        (PROGRAM_TEXT, "__main__", None),
        (
            PROGRAM_TEXT,
            "claen",
            "'p.py' defines no function 'claen' (it has clean; or __main__ to run the file as a script)",
        ),
        (PROGRAM_TEXT, "Cleaner", "'p.py' defines no function 'Cleaner' (it has clean; or __main__ to run "),
        ("", "clean", "'p.py' defines no function 'clean' (it has none; or __main__ to run "),
        ("def half(:\n", "half", "'p.py' is not valid Python: "),
        ("\0", "half", "'p.py' is not valid Python: "),
    ],
)
def test_code_of_a_python_program(tmp_path: Path, text: str, entry_class: str, fault: str | None) -> None:
    path = tmp_path / "p.py"
    path.write_text(text)
    found = check_code(path, entry_class)
    assert found is None if fault is None else (found or "").startswith(fault)


def test_a_program_lies_in_its_archive_beside_what_starts_it(tmp_path: Path) -> None:
    path = tmp_path / "street-stats.2.py"
    path.write_text(PROGRAM_TEXT)
    desired = dataclasses.replace(job("a"), job_path=str(path), code_hash="0" * 64)
    package = package_of(desired)
    assert package == package_of(dataclasses.replace(desired, job_name="b", entry_class="clean"))
    assert isinstance(package.content, bytes)
    assert package.code == hashlib.sha256(package.content).hexdigest()  # not the hash of the file alone
    with zipfile.ZipFile(io.BytesIO(package.content)) as archive:
        assert archive.namelist() == [
            *(f"speck_flink/{name}.py" for name in ("__init__", "job", "launcher")),
            "speck_program/__init__.py",
            "speck_program/street_stats_2.py",
        ]
        assert archive.read("speck_program/street_stats_2.py").decode() == PROGRAM_TEXT
    path.write_text(PROGRAM_TEXT + "\n")
    assert package_of(desired).code != package.code


def test_the_request_that_runs_a_program() -> None:
    desired = dataclasses.replace(
        job("a"), job_path="x/clean.py", entry_class="clean", arguments={"word": "ä", "most": 3}
    )
    attempt = attempt_of(desired)
    body = pyflink.python_run_body(
        {"jobId": attempt.id, "entryClass": "?"}, "/up/x.jar", desired, attempt, Inventory()
    )
    assert (body["jobId"], body["entryClass"]) == (attempt.id, pyflink.DRIVER)
    *options, order = body["programArgsList"]
    assert order.isascii()  # Java passes it on in the encoding of its locale
    command = json.loads(order)
    arguments = command.pop("command_line")
    assert options == ["-pyfs", "/up/x.jar", "-pym", "speck_flink.launcher"]
    assert command == {
        "module": "clean",
        "entry": "clean",
        "attempt": attempt.id,
        "arguments": {"word": "ä", "most": 3},
    }
    assert "--job-name" in arguments
    assert "--word" not in arguments  # a function has them with their types
    script = dataclasses.replace(desired, entry_class="__main__")
    again = pyflink.python_run_body(body, "/up/x.jar", script, attempt, Inventory())
    order = again["programArgsList"][-1]
    assert json.loads(order)["command_line"][-4:] == ["--word", "ä", "--most", "3"]


OCCUPIED = """ProgramInvocationException: The main method caused an error: null
Caused by: java.lang.IllegalArgumentException
\tat org.apache.flink.util.Preconditions.checkArgument(Preconditions.java:122)
\tat org.apache.flink.client.python.PythonEnvUtils.setGatewayServer(PythonEnvUtils.java:416)
"""


def refused(trace: str) -> FlinkRefused:
    return FlinkRefused("refused", address="http://b:8081/", status=400, trace=trace)


def test_a_program_waits_for_one_that_the_manager_still_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a request that timed out on a loaded machine."""
    pauses: list[float] = []
    monkeypatch.setattr(launcher.time, "sleep", pauses.append)
    answers = iter([refused(OCCUPIED)] * 7 + [refused("SPECK-MIXED-UP"), None])

    def ask() -> None:
        if (error := next(answers)) is not None:
            raise error

    launcher.patiently(ask)
    assert len(pauses) == 8


@pytest.mark.parametrize("trace", [OCCUPIED, "SPECK-MIXED-UP", "java.lang.RuntimeException: x"])
def test_a_program_is_not_asked_for_without_end(trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(launcher.time, "sleep", lambda seconds: now.append(now[-1] + seconds))
    monkeypatch.setattr(launcher.time, "monotonic", lambda: now[-1])

    def ask() -> None:
        raise refused(trace)

    with pytest.raises(FlinkRefused):
        launcher.patiently(ask)
    assert len(now) <= 1 + launcher.OCCUPIED


@pytest.mark.parametrize(
    ("trace", "reason"),
    [
        ('Caused by: java.io.IOException: Cannot run program "py9": error=2', "there is no program 'py9' on"),
        (
            "Caused by: java.lang.ClassNotFoundException: org.apache.flink.client.python.PythonDriver",
            "the opt folder of its JobManager has no flink-python",
        ),
        ("java.lang.RuntimeException: Found 0 flink-python jar.", "the opt folder of its JobManager has"),
        (
            "RestHandlerException: No jobs included in application.",
            "the program ended without starting a job",
        ),
        ("x.RuntimeException: Python process exits with code: 137", "its Python process ended without"),
        ("java.lang.RuntimeException: SPECK-MIXED-UP", "programs of other clients were started there"),
        (OCCUPIED, "programs of other clients were started there"),
        (
            "a.B: c\n\tat a.B(B.java:1)\nCaused by: a.RuntimeException: ValueError: x (c.py, line 3)",
            "ValueError: x (c.py, line 3)",
        ),
    ],
)
def test_why_a_program_was_not_started(trace: str, reason: str) -> None:
    assert pyflink.reason(trace).startswith(reason)


HARNESS = """java.io.IOException: Failed to execute
\tat org.apache.flink.Bundle.run(Bundle.java:1)
Caused by: java.lang.RuntimeException: Error from SDK harness: Traceback (most recent call last):
  File "/site-packages/apache_beam/runners/worker/sdk_worker.py", line 312, in _execute
    response = task()
  File "/tmp/pyflink/1/x_p/speck_program/clean.py", line 12, in speed_of
    return float(text)
           ^^^^^^^^^^^
ValueError: could not convert string to float: 'x'

\tat org.apache.beam.Worker.run(Worker.java:1)
\t... 3 more
"""


def test_the_cause_in_a_python_function() -> None:
    desired = "ValueError: could not convert string to float: 'x' (clean.py, line 12)"
    assert root_cause(HARNESS) == desired
    assert root_cause(HARNESS.replace("speck_program", "other")) == desired.removesuffix(
        " (clean.py, line 12)"
    )
    assert root_cause("Traceback (most recent call last):") == "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("installed", "fault"),
    [
        ("2.3.0", None),
        ("2.3.1", None),
        ("?", None),
        ("", "the Python 3.11.7 (/py) of the JobManager has no apache-flink (expected apache-flink==2.3.0 "),
        (
            "2.2.0",
            "the Python 3.11.7 (/py) of the JobManager has apache-flink 2.2.0, and the cluster is Flink 2",
        ),
    ],
)
def test_a_python_that_does_and_one_that_does_not(installed: str, fault: str | None) -> None:
    found = pyflink.fault_of(pyflink.FoundPython("3.11.7", "/py", installed), "2.3.0")
    assert found is None if fault is None else (found or "").startswith(fault)


def test_submission_lock() -> None:
    """An exclusive block waits for all others, and later ones wait for it."""
    lock, entered = SubmissionLock(), list[str]()
    inside, release = threading.Event(), threading.Event()

    def enter(name: str, mode: Callable[[], AbstractContextManager[None]]) -> threading.Thread:
        def run() -> None:
            with mode():
                entered.append(name)
                if name == "first":
                    inside.set()
                    release.wait(30)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    threads = [enter("first", lock.shared)]
    assert inside.wait(30)
    with lock.shared():
        threads.append(enter("exclusive", lock.exclusive))
        eventually(lambda: lock.waiting, lambda waiting: waiting == 1)
        threads.append(enter("late", lock.shared))
    assert entered == ["first"]
    release.set()
    for thread in threads:
        thread.join(30)
    assert entered == ["first", "exclusive", "late"]


def test_the_python_of_local_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    assert python_program() == ""
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "python"))
    with pytest.raises(LocalError, match=rf"{PYTHON_VARIABLE} is '.*python', which is not a program"):
        python_program()


@pytest.mark.parametrize("name", ["my job.py", "luft-ä.py", "🚀.py", "a.b.py", "1a.py"])
def test_the_module_of_a_file_has_a_name_that_any_site_can_import(name: str) -> None:
    module = module_of(Path(name))
    assert module.isascii() and all(each.isalnum() or each == "_" for each in module)
