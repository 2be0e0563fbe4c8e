"""A Spark job's file is checked without running it."""

from __future__ import annotations

import ast
import gc
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binders.common.python_reach import reached_statements
from binders.common.python_source import MAX_BYTES, parsed
from binders.flink import FLINK
from binders.flink.submission.code_check import parameters as flink_parameters
from binders.spark import CONNECT, STANDALONE, parameters
from binders.spark.query import script_check
from binders.spark.query.code_check import check_code, mentions_python_functions
from speck.binder import Parameter
from speck.core.job import Scalar
from speck.schema.code import argument_faults
from testbed.benches.spark import JOBS

SOURCE = """\
def clean(messages):
    return messages

class Count:
    pass

fast = clean
raise SystemExit
"""


@pytest.fixture(name="job_file")
def job_file_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "clean.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


@pytest.fixture(name="archive")
def archive_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "streets.whl"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("streets/__init__.py", "from .cleaning import clean\n")
        package.writestr("streets/cleaning.py", SOURCE)
    return path


@pytest.mark.parametrize("entry", ["clean", "Count", "fast"])
def test_names_of_a_file(job_file: Path, entry: str) -> None:
    assert CONNECT.check_code(job_file, entry) is None


@pytest.mark.parametrize("entry", ["streets.cleaning.clean", "streets.cleaning.Count", "streets.clean"])
def test_names_of_an_archive(archive: Path, entry: str) -> None:
    assert CONNECT.check_code(archive, entry) is None


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("claen", "'clean.py' defines no function or class 'claen' (it has clean)"),
        ("missing", "'clean.py' defines no function or class 'missing' (it has Count, clean)"),
        (
            "not a name",
            "entry_class 'not a name' is not a name (expected for example clean or package.module.clean)",
        ),
    ],
)
def test_faults_of_a_file(job_file: Path, entry: str, message: str) -> None:
    assert CONNECT.check_code(job_file, entry) == message


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "clean",
            "entry_class 'clean' names no module of 'streets.whl' (expected module.clean, its modules are",
        ),
        ("streets.cleaner.clean", "'streets.whl' has no module 'streets.cleaner' (it has streets.cleaning"),
        ("streets.cleaning.x", "'streets.whl:streets/cleaning.py' defines no function or class 'x'"),
    ],
)
def test_faults_of_an_archive(archive: Path, entry: str, message: str) -> None:
    assert (CONNECT.check_code(archive, entry) or "").startswith(message)


def test_a_file_that_is_no_python(tmp_path: Path) -> None:
    path = tmp_path / "clean.py"
    path.write_text("def clean(:\n", encoding="utf-8")
    assert CONNECT.check_code(path, "clean") == "'clean.py' is not valid Python: invalid syntax (line 1)"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b"-" * 100_000 + b"1", "nested too deeply"),
        (b"a" + b".b" * 100_000, "nested too deeply"),
        (b"#" * (MAX_BYTES + 1), "too large for a Python file"),
        (b"def clean(messages):\n    return '\0'", "null bytes"),
        (b"# coding: nope\n", "unknown encoding"),
    ],
)
def test_a_file_that_is_made_to_do_harm(tmp_path: Path, source: bytes, words: str) -> None:
    (path := tmp_path / "clean.py").write_bytes(source)
    assert words in (CONNECT.check_code(path, "clean") or "")
    assert words in (FLINK.check_code(path, "clean") or "")
    with zipfile.ZipFile(tmp_path / "clean.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("clean.py", source)
    assert words in (CONNECT.check_code(tmp_path / "clean.zip", "clean.clean") or "")


def test_an_archive_that_is_a_bomb(tmp_path: Path) -> None:
    """Much in little: no more of it is unpacked than is looked at."""
    with zipfile.ZipFile(path := tmp_path / "clean.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("clean.py", bytes(64 << 20))
    tracemalloc.start()
    try:
        assert "too large for a Python file" in (CONNECT.check_code(path, "clean.clean") or "")
        assert mentions_python_functions(path)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_an_archive_that_cannot_be_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(path := tmp_path / "clean.zip", "w") as archive:
        archive.writestr("clean.py", "def clean(messages):\n    return messages\n")
    whole = path.read_bytes()
    central = whole.index(b"PK\1\2")
    for place, value in ((8, 1), (10, 99)):  # encrypted; packed in a way that nobody knows
        broken = bytearray(whole)
        broken[central + place] = value
        path.write_bytes(broken)
        assert "cannot be read" in (CONNECT.check_code(path, "clean.clean") or "")


def test_files_of_another_kind(tmp_path: Path) -> None:
    jar, broken = tmp_path / "job.jar", tmp_path / "job.zip"
    broken.write_bytes(b"no archive")
    assert "expected a .py file, a .zip or a .whl" in (CONNECT.check_code(jar, "clean") or "")
    assert "cannot be read" in (CONNECT.check_code(broken, "a.clean") or "")
    assert "cannot be read" in (CONNECT.check_code(tmp_path / "none.py", "clean") or "")


def test_a_file_that_is_damaged_anywhere_is_told_as_unreadable(tmp_path: Path) -> None:
    """Wherever a byte is wrong: some sentence, or none where it is no matter, and never another's error."""
    with zipfile.ZipFile(tmp_path / "whole.zip", "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("cleaning.py", SOURCE)
        package.writestr("streets/Clean.class", "x" * 50)
    whole = (tmp_path / "whole.zip").read_bytes()
    damaged, jar, said = tmp_path / "damaged.zip", tmp_path / "damaged.jar", set()
    for place in range(len(whole)):
        for bits in (1, 0x80, 0xFF):
            content = bytearray(whole)
            content[place] ^= bits
            damaged.write_bytes(content)
            jar.write_bytes(content)
            said |= {CONNECT.check_code(damaged, "cleaning.clean"), FLINK.check_code(jar, "streets.Clean")}
            mentions_python_functions(damaged)
    reported = " ".join(filter(None, said))
    assert "\n" not in reported
    for words in ("while decompressing data", "unexpected end of file", "is encrypted", "zip file version"):
        assert words in reported


@pytest.mark.parametrize("nested", ["-" * 100_000 + "1", "+".join(["1"] * 100_000), "a" + ".b" * 100_000])
def test_a_file_that_is_nested_too_deeply(tmp_path: Path, nested: str) -> None:
    (path := tmp_path / "deep.py").write_text(f"def clean(messages): pass\n{nested}\n")
    for kind in (CONNECT, FLINK):
        assert "nested too deeply" in (kind.check_code(path, "clean") or "")


@pytest.fixture
def busy_collector() -> Iterator[None]:
    """Python's collector runs often, and lets other threads run meanwhile."""

    def watch(phase: str, about: dict[str, int]) -> None:
        [None for _ in range(3)]

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(100)
    gc.callbacks.append(watch)
    yield
    gc.callbacks.remove(watch)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("busy_collector")
def test_files_that_are_read_at_once() -> None:
    source = b"x = [1, (2, {3: 4})]\n" * 300
    with ThreadPoolExecutor(4) as threads:
        for tree in threads.map(lambda _: parsed(source, "a.py"), range(12)):
            assert len(tree.body) == 300


def test_the_jobs_of_these_tests() -> None:
    assert CONNECT.check_code(JOBS / "simple.py", "count") is None


TAKES = """\
from functools import cache

def limited(messages, limit: float, /, room: "str", *, name: str = "a", hours: int | None = None):
    return messages

def any_of(messages, **more):
    return messages

@cache
def wrapped(messages):
    return messages

class Mean:
    def __init__(self, window: str = "1 hour", late: bool = False):
        self.window = window

class Derived(Mean):
    pass

renamed = limited
"""


@pytest.mark.parametrize(
    ("entry", "taken"),
    [
        (
            "limited",
            [Parameter("room", True), Parameter("name", False, (str,)), Parameter("hours", False)],
        ),
        ("Mean", [Parameter("window", False, (str,)), Parameter("late", False, (bool,))]),
        ("any_of", None),
        ("wrapped", None),
        ("Derived", None),
        ("renamed", None),
    ],
)
def test_arguments_that_code_takes(tmp_path: Path, entry: str, taken: list[Parameter] | None) -> None:
    path, archive = tmp_path / "takes.py", tmp_path / "takes.zip"
    path.write_text(TAKES, encoding="utf-8")
    with zipfile.ZipFile(archive, "w") as package:
        package.writestr("streets/takes.py", TAKES)
    for found in (parameters(path, entry), parameters(archive, f"streets.takes.{entry}")):
        assert (found if found is None else list(found)) == taken
    assert flink_parameters(path, entry) == parameters(path, entry)
    assert flink_parameters(path, "__main__") is None


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({"limit": 8}, []),
        ({"limit": 8.5, "name": "x", "whole": 3, "strict": True}, []),
        ({}, ["'alarms' needs an argument 'limit' (expected arguments: {limit: ...})"]),
        (
            {"limit": 8, "nam": "x"},
            ["'alarms' takes no argument 'nam' (did you mean 'name'?)"],
        ),
        (
            {"limit": 8, "other": "x"},
            ["'alarms' takes no argument 'other' (it takes limit, name, whole, strict)"],
        ),
        ({"limit": "8"}, ["argument 'limit' of 'alarms' is '8' (expected a number)"]),
        ({"limit": True}, ["argument 'limit' of 'alarms' is True (expected a number)"]),
        ({"limit": 8, "name": 12}, ["argument 'name' of 'alarms' is 12 (expected text)"]),
        ({"limit": 8, "whole": 1.5}, ["argument 'whole' of 'alarms' is 1.5 (expected a whole number)"]),
        ({"limit": 8, "strict": 1}, ["argument 'strict' of 'alarms' is 1 (expected true or false)"]),
    ],
)
def test_arguments_that_are_given(given: dict[str, Scalar], reported: list[str]) -> None:
    taken = [
        Parameter("limit", True, (int, float)),
        Parameter("name", False, (str,)),
        Parameter("whole", False, (int,)),
        Parameter("strict", False, (bool,)),
    ]
    assert list(argument_faults("alarms", taken, given)) == reported


# -- scripts

SCRIPTS = {
    "a session of its own": (
        "from pyspark.sql import SparkSession\n"
        'spark = SparkSession.builder.master("local[2]").appName("a").getOrCreate()\n'
        "def run(messages):\n    return messages\n",
        "line 2: SparkSession.builder.master(...) makes a session (expected messages.sparkSession",
    ),
    "a session over several lines": (
        "from pyspark.sql import SparkSession\n"
        "def run(messages):\n    spark = (\n        SparkSession.builder\n        .appName('a')\n"
        '        .remote("sc://there")\n        .getOrCreate()\n    )\n    return messages\n',
        "line 6: SparkSession.builder.remote(...) makes a session",
    ),
    "a context": (
        "from pyspark import SparkContext\ndef run(messages):\n    SparkContext('local')\n",
        "line 3: SparkContext(...) makes a session",
    ),
    "argparse": (
        "import argparse\nparser = argparse.ArgumentParser()\noptions = parser.parse_args()\n"
        "def run(messages):\n    return messages.limit(options.most)\n",
        "line 3: parse_args() reads a command line, which a job does not have",
    ),
    "sys.argv": (
        "import sys\ndef run(messages):\n    return messages.limit(int(sys.argv[1]))\n",
        "line 3: sys.argv reads a command line",
    ),
    "a query of its own": (
        "def run(messages):\n    query = messages.writeStream.format('console').start()\n"
        "    query.awaitTermination()\n",
        "line 2: writeStream starts a query (expected the DataFrame to be returned",
    ),
    "its end": (
        "def run(messages):\n    query = messages.writeStream.format('console').start()\n"
        "    query.awaitTermination()\n",
        "line 3: awaitTermination waits for the end of a query",
    ),
    "its batches": (
        "def store(rows, number):\n    rows.show()\n\ndef run(messages):\n"
        "    messages.writeStream.foreachBatch(store).start()\n",
        "line 5: foreachBatch takes the batches of a query",
    ),
    "a debug query in a helper": (
        "def show(rows):\n    rows.writeStream.format('console').start()\n\ndef run(messages):\n"
        "    show(messages)\n    return messages\n",
        "line 2: writeStream starts a query",
    ),
    "no messages": ("def run():\n    pass\n", "line 1: run() takes no messages"),
    "an end of the session": (
        "from pyspark.sql import SparkSession\ndef run(messages):\n"
        "    spark = SparkSession.builder.getOrCreate()\n    spark.stop()\n",
        "line 4: spark.stop() ends the session",
    ),
    "no function": (
        "from pyspark.sql import SparkSession\nspark = SparkSession.builder.master('local').getOrCreate()\n",
        "'script.py' defines no function or class 'run' (it has none); script.py, line 2: SparkSession",
    ),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_recognised_with_its_place_and_the_function_to_write(tmp_path: Path, script: str) -> None:
    source, fault = SCRIPTS[script]
    (tmp_path / "script.py").write_text(source)
    for kind in (CONNECT, STANDALONE):
        found = kind.check_code(tmp_path / "script.py", "run")
        assert found is not None and fault in found
        assert "script.py, line " in found
        assert found.endswith("Write a job as a function: def run(messages): return messages.select(...)")


JOBS_BESIDE_SCRIPTS = {
    "as a script, too": (
        "import sys\ndef run(messages):\n    return messages\n\n"
        "if __name__ == '__main__':\n    print(sys.argv)\n    run(None).writeStream.start()\n"
    ),
    "an unused function": (
        "def debug(rows):\n    rows.writeStream.start().awaitTermination()\n\n"
        "def run(messages):\n    return messages\n"
    ),
    "the session that there is": (
        "from pyspark.sql import SparkSession\ndef run(messages):\n"
        "    spark = SparkSession.builder.appName('a').getOrCreate()\n"
        "    return messages.join(spark.range(3).withColumnRenamed('id', 'value'), 'value')\n"
    ),
    "other programs": (
        "import subprocess\ndef run(messages):\n    server = subprocess.Popen('x')\n    server.stop()\n"
        "    return messages\n"
    ),
    "any arguments": "def run(*messages):\n    return messages[0]\n",
    "a class": "class run:\n    def __call__(self, messages):\n        return messages\n",
}


@pytest.mark.parametrize("job", JOBS_BESIDE_SCRIPTS)
def test_a_job_is_no_script(tmp_path: Path, job: str) -> None:
    (tmp_path / "job.py").write_text(JOBS_BESIDE_SCRIPTS[job])
    assert CONNECT.check_code(tmp_path / "job.py", "run") is None


def test_a_script_that_was_accepted_before_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPTS["a debug query in a helper"][0])
    assert check_code(tmp_path / "script.py", "run") is None


def test_a_file_is_searched_for_a_script_once_for_each_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[tuple[str, str]] = []

    def reached(source: bytes, entry: str, where: str) -> list[ast.stmt]:
        searched.append((entry, where))
        return reached_statements(source, entry, where)

    monkeypatch.setattr(script_check, "reached_statements", reached)
    job = f"# {tmp_path}\ndef run(messages):\n    return messages\n"  # of no other test
    file = tmp_path / "job.py"
    for text, fault in 2 * [
        (job, None),
        (f"{job}\nrun(1).writeStream\n", "line 5: writeStream starts a query"),
    ]:
        file.write_text(text)
        said = CONNECT.check_code(file, "run")
        assert said == fault or (fault is not None and fault in str(said))
    assert searched == [("run", "job.py")] * 2
    (tmp_path / "other.py").write_text(job)
    assert CONNECT.check_code(tmp_path / "other.py", "run") is None
    assert searched[2:] == [("run", "other.py")]  # whose name would be in the fault
