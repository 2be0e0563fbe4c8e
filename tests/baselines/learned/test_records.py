"""Training data: lines written and read again, their JSON Schema, and hostile lines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from speck.errors import InvalidInput
from speck.placement.problem import Load
from speck_baselines.learned.records import Record, json_schema, main, read
from speck_baselines.learned.targets import labels
from testbed.placement.training_data import FIRST, offered, records, world
from testbed.placement.training_data import main as write_data
from tests.baselines.learned.test_features import line


def record(**measured: float) -> Record:
    problem = line()
    return Record(origin="simulator", problem=problem, placement=problem.placement((0, 1)), measured=measured)


def written(directory: Path, *lines: str) -> Path:
    path = directory / "data.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = record(age=0.25, rate=5.0, growth=0.0, failed=False)
    (found,) = read(written(tmp_path, one.line, "", " "))
    assert found == one


def test_event_loops_and_stamps_are_kept_and_lines_without_them_are_read(tmp_path: Path) -> None:
    problem = line()
    none = Load.none(len(problem.sites))
    problem = replace(problem, event_loop=0.002, background=replace(none, messages=[5.0, 7.0]))
    problem = replace(problem, channels=[replace(problem.channels[0], stamp=19.0), *problem.channels[1:]])
    text = Record(
        origin="engines", problem=problem, placement=problem.placement((0, 1)), measured={"age": 1.0}
    ).line
    before = json.loads(text)
    del before["problem"]["event_loop"], before["problem"]["background"]["messages"]
    for each in before["problem"]["channels"]:
        del each["stamp"]
    now, former = read(written(tmp_path, text, json.dumps(before)))
    assert now.problem == problem
    plain = [replace(each, stamp=None) for each in problem.channels]
    assert former.problem == replace(problem, event_loop=0.0, background=none, channels=plain)


def test_a_line_is_of_its_schema_and_a_wrong_one_is_not() -> None:
    validator = jsonschema_rs.validator_for(json_schema())
    data = json.loads(record(age=0.25, failed=False).line)
    assert validator.is_valid(data)
    for change in HOSTILE:
        spoiled = json.loads(json.dumps(data))
        change(spoiled)
        if change in IN_SCHEMA:
            assert not validator.is_valid(spoiled), change


def _set(*path: str | int, to: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for name in path[:-1]:
            data = data[name]
        data[path[-1]] = to

    return change


IN_SCHEMA = {
    _set("version", to=2): r"line 1: .*version: Must be equal to 1",
    _set("origin", to="dream"): r"origin: Must be one of: simulator, engines",
    _set("problem", "sites", 0, "cores", to="two"): r"problem.sites.0.cores: Not a valid number",
    _set("problem", "sites", 0, "core", to=2): r"problem.sites.0.core: Unknown field",
    _set("problem", "jobs", to=[]): r"problem.jobs: Shorter than minimum length 1",
    _set("problem", "jobs", 0, "cost", to=-1): r"problem.jobs.0.cost: Must be greater than or equal to 0",
    _set("placed", "sites", to=None): r"placed.sites: Field may not be null",
    _set("measured", to=[]): r"measured: Invalid input type",
    _set("measured", "age", to=-1): r"measured.age: Must be greater than or equal to 0",
}
HOSTILE = IN_SCHEMA | {
    _set("placed", "sites", to=[0]): r"placed.sites has 1 members \(expected 2\)",
    _set("placed", "sites", 0, to=7): r"placed.sites has index 7 \(expected below 2\)",
    _set("placed", "homes", 0, to=9): r"placed.homes has index 9 \(expected below 2\)",
    _set("problem", "jobs", 0, "inputs", to=[3]): r"problem.jobs.0.inputs has index 3 \(expected below 3\)",
    _set("problem", "jobs", 0, "output", to=8): r"problem.jobs.0.output has index 8 \(expected below 3\)",
    _set("problem", "jobs", 0, "inputs", to=[2]): r"problem: .*form a cycle",
    _set("problem", "jobs", 0, "allowed", to=[1]): r"placed: job 'clean' is not allowed at site 'edge'",
    _set("measured", "age", to=math.nan): r"is no JSON: NaN \(expected a finite number\)",
}


@pytest.mark.parametrize("change", HOSTILE, ids=HOSTILE.values())
def test_a_hostile_line_is_refused_with_its_field(tmp_path: Path, change: Callable[[Any], None]) -> None:
    data = json.loads(record(age=0.25).line)
    change(data)
    with pytest.raises(InvalidInput, match=HOSTILE[change]):
        list(read(written(tmp_path, json.dumps(data))))


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is no JSON"), ("[1]", r"is '\[1\]' \(expected an object\)"), ("[" * 100_000, "is no JSON")],
)
def test_text_that_is_no_object_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"line 2: .*{message}"):
        list(read(written(tmp_path, record().line, text)))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.jsonl' cannot be read"):
        list(read(tmp_path / "none.jsonl"))


def test_a_line_of_the_gates_is_a_record_of_engines_without_a_rate(tmp_path: Path) -> None:
    data = json.loads(record(age=0.1, rate=50.0).line)
    del data["version"], data["origin"]
    data |= {"graph": "chain", "predicted": {}}
    data["measured"] |= {"cores": {"edge": 0.2}}
    (found,) = read(written(tmp_path, json.dumps(data)))
    assert found.origin == "engines"
    assert labels(found, relative=True) == {"age": -1.0}


def test_labels_are_of_what_was_measured() -> None:
    assert labels(record(), relative=True) == {}
    found = labels(record(age=0.01, rate=2.5, growth=3.0, failed=False), relative=True)
    # Of 100 messages/s that are born 5 results/s come out, if nothing holds them up.
    assert found == pytest.approx({"age": -2.0, "rate": math.log10(0.5), "failed": 0.0, "pressed": 1.0})
    assert labels(record(rate=10.0, growth=1.0), relative=False) == {"rate": 1.0, "pressed": 0.0}
    assert offered(line()) == {"mean": pytest.approx(5.0)}


def test_a_file_is_counted_and_the_schema_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(written(tmp_path, record().line))]) == 0
    assert json.loads(capsys.readouterr().out) == {"simulator": 1}
    assert main(["--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()
    assert main([str(tmp_path)]) == 1
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.slow("simulates the same data three times")
def test_simulated_data_are_repeatable_and_of_the_form(tmp_path: Path) -> None:
    path, again = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    for each in (path, again):
        assert write_data(["-o", str(each), "--problems", "1", "--each", "3"]) == 0
    assert path.read_bytes() == again.read_bytes()
    assert list(read(path)) == list(_records())


def _records() -> Iterator[Record]:
    yield from records(world(FIRST), FIRST, 3)
