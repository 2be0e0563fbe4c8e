"""``speck validate``: the checks of the server, without a server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from speck import cli
from testbed.servers.base import REFUSING_PORT
from testbed.servers.rest import yaml_of
from tests.fixtures.speck_command import Output

Validate = Callable[..., Output]


@pytest.fixture
def validate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Validate:
    """Writes a file and validates it, in its directory, where no server answers."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work.py").write_text("def work(messages):\n    return messages\n")
    nowhere = f"http://127.0.0.1:{REFUSING_PORT}"

    def run(text: str, *arguments: str) -> Output:
        (tmp_path / "file.yaml").write_text(text)
        monkeypatch.setattr(sys, "argv", ["speck", "--server", nowhere, "validate", "file.yaml", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return Output(int(ended.value.code or 0), captured.out, captured.err)

    return run


SITED = """
jobs:
- job_name: a
  site: A
  source_topic: t0
  sink_topic: t1
  entry_class: work
  job_path: work.py
"""
SITES = "sites:\n  A:\n    spe_address: sc://a:15002\n    broker_address: tcp://a:1883\n"


def test_a_sound_composition(validate: Validate) -> None:
    said = validate(yaml_of("a t0 t1", "b t1 t2"))
    assert (said.code, said.out) == (0, "file.yaml: composition file, jobs a, b, no faults\n")
    assert said.err.splitlines()[0].startswith("warning: line 3: job 'a': source_topic 't0' is written by no")
    assert validate(yaml_of("a t0 t1"), "--strict").code == 1


def test_variables_are_filled_in(validate: Validate) -> None:
    text = yaml_of("a ${FROM} t1")
    assert "line 3: variable 'FROM' has no value" in validate(text).err
    assert validate(text, "--set", "FROM=t0").code == 0


def test_every_fault_is_reported(validate: Validate) -> None:
    said = validate(yaml_of("a t0 t1 upgrade: maybe; colour: red", "a t1 t2"))
    assert (said.code, said.out) == (1, "")
    lines = said.err.splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == ["error"] * 3
    assert lines[-1] == "file.yaml: 3 faults"


def test_faults_as_json(validate: Validate) -> None:
    said = validate(yaml_of("a t0 t1 upgrade: maybe"), "--json")
    assert said.code == 1
    assert (said.data["valid"], said.data["warnings"]) == (False, [])
    (fault,) = said.data["faults"]
    assert (fault["job"], fault["field"], fault["line"]) == ("a", "upgrade", 10)
    assert validate(yaml_of("a t0 t1"), "--json").data["valid"] is True


def test_sites_are_those_of_the_inventory(validate: Validate, tmp_path: Path) -> None:
    assert "site 'A'" in validate(SITED).err
    (tmp_path / "sites.yaml").write_text(SITES)
    assert validate(SITED, "--sites", "sites.yaml").code == 0


def test_job_files_lie_under_the_roots(validate: Validate, tmp_path: Path) -> None:
    (tmp_path / "work.py").rename(tmp_path / "elsewhere.py")
    assert "work.py" in validate(yaml_of("a t0 t1")).err
    (tmp_path / "root").mkdir()
    (tmp_path / "elsewhere.py").rename(tmp_path / "root" / "work.py")
    assert validate(yaml_of("a t0 t1"), "--root", "root").code == 0


WITHOUT_SITES = """
jobs:
- job_name: a
  site: A
  source_topic: t0
  sink_topic: t1
  entry_class: work
  job_path: wrok.py
- job_name: b
  sites: [A, B]
  engine: spark
  source_topic: t1
  sink_topic: t2
  entry_class: work
  job_path: wrok.jar
- job_name: c-${each.site}
  for_each: {site: [A, B]}
  source_topic: t1
  sink_topic: t3
  entry_class: work
  job_path: wrok.zip
"""


def test_a_missing_job_file_is_a_fault_without_an_inventory_too(validate: Validate) -> None:
    faults = [
        each for each in validate(WITHOUT_SITES, "--json").data["faults"] if each["field"] == "job_path"
    ]
    missing = "does not exist (searched in "
    assert [(each["job"], each["line"]) for each in faults] == [("a", 8), ("b", 15), ("c-${each.site}", 21)]
    for fault, name in zip(faults, ("wrok.py", "wrok.jar", "wrok.zip"), strict=True):
        assert fault["message"].startswith(f"job_path {name!r} {missing}")


def test_an_inventory_is_read_too(validate: Validate) -> None:
    said = validate(SITES)
    assert (said.code, said.out, said.err) == (0, "file.yaml: sites A, no faults\n", "")
    assert "broker_address" in validate(SITES.replace("tcp:", "smoke:")).err


@pytest.mark.parametrize("text", ["", "- a", "jobs: [", "jobs: 7", "other: 1"])
def test_files_that_are_not_compositions(validate: Validate, text: str) -> None:
    said = validate(text)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("error: ")


SLIPS = {
    "a tab": (
        SITED.replace("  site:", "\tsite:"),
        "line 4: not valid YAML: while scanning a plain scalar found a tab character that violates "
        "indentation (indent with spaces, not with tabs)",
    ),
    "too far left": (
        SITED.replace("  site:", " site:"),
        "line 4: not valid YAML: while parsing a block mapping did not find expected key "
        "(indent each key like the first key of its mapping)",
    ),
    "too far right": (
        SITED.replace("  source_topic", "    source_topic"),
        "line 5: not valid YAML: mapping values are not allowed in this context "
        "(indent each key like the first key of its mapping, and put text that contains ': ' in quotes)",
    ),
    "no space after the colon": (
        SITED.replace("job_path: ", "job_path:"),
        "line 8: not valid YAML: while scanning a simple key could not find expected ':' "
        "(expected KEY: VALUE, with a space after the colon)",
    ),
    "a quote that is open": (
        SITED.replace("t0", '"t0'),
        "line 5: not valid YAML: while scanning a quoted scalar found unexpected end of stream "
        "(close the quote or bracket that opens in this line)",
    ),
    "an argument too many": (
        SITED + "  arguments: {limit: 8}\n",
        "line 9: job 'a': 'work' takes no argument 'limit' (it takes none)",
    ),
    "a directory for a file": (
        SITED.replace("work.py", "folder.py"),
        "line 8: job 'a': job_path 'folder.py' is not a regular file",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_reported_with_the_right_form(validate: Validate, tmp_path: Path, slip: str) -> None:
    (tmp_path / "sites.yaml").write_text(SITES)
    (tmp_path / "folder.py").mkdir()
    text, error = SLIPS[slip]
    assert f"error: {error}" in validate(text, "--sites", "sites.yaml").err.splitlines()


def test_files_of_other_systems(validate: Validate) -> None:
    text = yaml_of("a t0 t1")
    assert validate(text.replace("\n", "\r\n")).code == 0
    assert validate("\N{BYTE ORDER MARK}" + text).code == 0


def test_a_graph_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work.py").write_text("def work(messages):\n    return messages\n")
    (tmp_path / "file.yaml").write_text(yaml_of("late t1 t2", "early t0 t1", "later t1 t3"))
    monkeypatch.setattr(sys, "argv", ["speck", "graph", "file.yaml", "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    drawn = {each["job_name"]: each["feeds"] for each in json.loads(capsys.readouterr().out)}
    assert next(iter(drawn)) == "early"
    assert drawn == {"early": ["late", "later"], "late": [], "later": []}


MOVABLE = """
jobs:
- job_name: a
  site: any
  engine: spark
  source_broker: A
  source_topic: t0
  sink_topic: t1
  entry_class: work
  job_path: work.py
- job_name: b
  site: any
  engine: spark
  source_topic: t1
  sink_topic: t2
  entry_class: work
  job_path: work.py
"""


def test_jobs_that_speck_places_are_counted(validate: Validate, tmp_path: Path) -> None:
    (tmp_path / "sites.yaml").write_text(SITES)
    said = validate(MOVABLE, "--sites", "sites.yaml")
    assert (said.code, said.out) == (
        0,
        "file.yaml: composition file, jobs a, b (2 of them placed by SpecK), no faults\n",
    )
    assert "line 4: job 'a': site 'any' has no site to choose from" in validate(MOVABLE).err
    wrong = validate(
        MOVABLE.replace("source_topic: t1", "source_topic: t3"), "--sites", "sites.yaml", "--json"
    )
    (fault,) = json.loads(wrong.out)["faults"]
    assert (fault["line"], fault["job"], fault["field"]) == (14, "b", "source_topic")
    assert "is written by no job here (expected source_broker" in fault["message"]


@pytest.mark.slow("starts a new interpreter")
def test_a_check_of_a_file_imports_no_server() -> None:
    """A command takes as long to start as its imports do."""
    code = (
        "import sys, speck.cli, speck.cli.validate, speck.schema.compositions, speck.schema.inventory\n"
        "print(*({'flask', 'requests', 'structlog', 'speck.server.process'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")
