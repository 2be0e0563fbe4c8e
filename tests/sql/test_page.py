"""The commands about queries, and the examples of their page, run as they stand there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from speck.cli import cli
from speck.cli.render.values import changed_values
from speck.errors import InvalidInput
from speck.schema.queries import queries_of
from speck.sql.bind import bind
from speck.sql.cuts import input_of
from testbed import ROOT
from tests.sql.test_bind import TABLES
from tests.support.docs_blocks import Block, blocks, steps

PAGE = blocks(ROOT / "docs" / "sql.md")


@pytest.fixture(name="folder", autouse=True)
def folder_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for block in PAGE:
        if "file" in block.notes:
            (tmp_path / block.notes["file"]).write_text(block.text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> int:
    try:
        cli.main(list(arguments), prog_name="speck", standalone_mode=False)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def files() -> list[Block]:
    return [each for each in PAGE if each.language == "yaml"]


def test_a_first_result_needs_one_file_of_at_most_fifteen_lines() -> None:
    assert len(files()[0].lines) <= 15


@pytest.mark.parametrize(
    "block", [each for each in PAGE if each.language == "console" and "not run" not in each.notes], ids=str
)
def test_the_commands_of_the_page_print_what_it_shows(
    block: Block, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in steps(block):
        assert run(*step.command.split()[1:]) == 0
        assert capsys.readouterr().out.splitlines() == list(step.shown or ())


@pytest.mark.parametrize("block", files(), ids=str)
def test_each_query_of_the_page_is_explained(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sql", "explain", block.notes["file"]) == 0
    shown = capsys.readouterr().out
    assert "decode" in shown and "encode" in shown and "state" in shown


def test_explain_has_the_types_of_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sql", "explain", "hourly.yaml", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["stateful"] and found["table"] == "readings"
    assert [each["name"] for each in found["operators"]] == [
        "decode",
        "filter",
        "windows",
        "columns",
        "encode",
    ]
    assert [(each["name"], each["type"]) for each in found["output"]] == [
        ("window_end", "timestamp"),
        ("town", "string"),
        ("n", "bigint"),
        ("mean", "double"),
    ]


def test_a_plan_shows_the_operators_of_a_query_that_change() -> None:
    programs = [
        bind(f"SELECT town FROM readings WHERE speed > {least}", TABLES).program.to_json() for least in (1, 2)
    ]
    before, after = ({"program": each} for each in programs)
    changes = changed_values({"field": "query", "before": before, "after": after})
    assert list(changes) == [("query.filter", "speed > DOUBLE(1)", "speed > DOUBLE(2)")]


def test_messages_that_do_not_fit_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sql", "try", "towns.yaml", "--rows", "readings=readings.json", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["unparsable"] == [
        {"file": "readings.json", "line": 4, "reason": "column 'speed' is 'fast' (expected double)"}
    ]


def test_other_results_than_expected_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "right").write_text('{"town":"Bonn","speed":71.0}\n{"town":"Ulm","speed":63.5}\n')
    (folder / "wrong").write_text('{"town":"Ulm","speed":63.5}\n')
    assert run("sql", "try", "towns.yaml", "--rows", "readings.json", "--expect", "right") == 0
    assert "results as expected: 2" in capsys.readouterr().err
    assert run("sql", "try", "towns.yaml", "--rows", "readings.json", "--expect", "wrong") == 1
    assert '+{"town":"Bonn","speed":71.0}' in capsys.readouterr().out


def test_no_results_are_said_to_be_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "slow.json").write_text('{"time": 1, "town": "Ulm", "speed": 9}\n')
    assert run("sql", "try", "towns.yaml", "--rows", "slow.json") == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "no results from 1 message\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("try", "towns.yaml", "--job", "slow", "--rows", "readings.json"), "job 'slow' has no query"),
        (("explain", "plain.yaml"), "has no job with a query"),
    ],
)
def test_a_job_without_a_query_is_named(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    (folder / "plain.yaml").write_text("jobs: []\n")
    with pytest.raises(InvalidInput, match=message):
        run("sql", *arguments)


@pytest.mark.parametrize("rows", ["slow=readings.json", "missing.json"])
def test_rows_of_another_table_or_no_file_are_refused(rows: str) -> None:
    with pytest.raises(Exception, match=r"is not a table of the query|is not a file"):
        run("sql", "try", "towns.yaml", "--rows", rows)


def test_the_page_has_the_lines_of_a_plan_with_another_cut() -> None:
    page = (ROOT / "docs" / "sql.md").read_text()
    found = queries_of(next(each for each in files() if "cut" in each.notes["file"]).text.encode(), ())
    forms = [{"program": input_of(found["q5"].query.program, cut).to_json()} for cut in ("columns", "filter")]
    changes = list(changed_values({"field": "query", "before": forms[0], "after": forms[1]}))
    assert [name for name, _, _ in changes] == ["query.columns", "query.cut", "query.filter"]
    for name, before, after in changes:
        assert f"{name}: {before or '(none)'} -> {after}\n" in page


def test_explain_lists_the_cuts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sql", "explain", "cut.yaml") == 0
    assert "  cuts     columns, filter, partials\n" in capsys.readouterr().out
    assert run("sql", "explain", "euros.yaml") == 0  # without windows
    assert "  cuts     columns, rows\n" in capsys.readouterr().out
    assert run("sql", "explain", "towns.yaml") == 0  # without the sites of its table
    assert "cuts" not in capsys.readouterr().out
