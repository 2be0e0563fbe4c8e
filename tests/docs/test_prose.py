"""The checks of phrases, lines and docstrings, on small texts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts.prose import (
    WIDTH,
    banned,
    clause_docstrings,
    examine,
    page_findings,
    script_findings,
    strings,
)


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("an action is at work", ["at work"]),
        ("It GOES ON, so many times.", ["GOES ON", "so many"]),
        ("the job is\ntold", ["told"]),
        ("messages were given up and taken back", ["given up", "taken back"]),
        ("stored for good", ["for good"]),
        ("going on the list", []),
        ("no more than ten messages; untold; homework", []),
        ("--give up, a job that has been stopped", []),
    ],
)
def test_banned_phrases_are_found_as_words(text: str, phrases: list[str]) -> None:
    found = [" ".join(text[place:].split()) for place, _ in banned(text)]
    assert [each[: len(phrase)] for each, phrase in zip(found, phrases, strict=True)] == phrases


def faults_of(source: str) -> list[int]:
    return [line for text, line in strings(ast.parse(source)) if list(banned(text))]


def test_strings_and_the_help_of_commands_are_read_and_docstrings_and_names_are_not() -> None:
    assert faults_of("raise Busy('it is at work')") == [1]
    assert faults_of("text = f'job {name} is at work'") == [1]
    assert faults_of("@cli.command()\ndef show():\n    '''Show what is at work.'''") == [3]
    assert faults_of("def show():\n    '''Show what is at work.'''") == []
    assert faults_of("X = 1\n'''As many as are at work.'''") == []
    assert faults_of("wanted = told = data['wanted']") == []
    assert faults_of("kind = 'given up'") == []  # stored


def test_what_a_script_shows_is_read_and_its_names_are_not() -> None:
    script = (
        "// what is at work\n"
        "const told = wanted;\n"
        'const text = "all as wanted";\n'
        "html`<p>It is ${told} at work</p>`\n"
        "html`<p>So many jobs</p>`\n"
    )
    assert [finding.line for finding in script_findings(script, "a.js")] == [3, 5]


def test_a_page_is_read_beside_its_code() -> None:
    page = "Use `wanted` here.\n\n```console\nat work\n```\n\nIt is told\nfor good.\n"
    assert [finding.line for finding in page_findings(page, "a.md")] == [7, 8]


def test_lines_of_prose_are_of_bounded_width() -> None:
    words = "word " * (WIDTH // 5 + 2)
    link = f"See [this]({'x' * WIDTH})."
    page = f"{words}\n| {words} |\n```\n{words}\n```\n# {words}\n{link}\n{words.strip()[:WIDTH]}\n"
    assert [finding.line for finding in page_findings(page, "docs/a.md")] == [1]
    assert list(page_findings(page, "README.md")) == []


@pytest.mark.parametrize(
    ("docstring", "faults"),
    [
        ("What a job reads.", 1),
        ("whether it runs.", 1),
        ("Who's there.", 0),
        ("How long to wait, s.", 1),
        ("True if the job runs.", 0),
        ("However it ends, close the store.", 0),
        ("The job's input.", 0),
    ],
)
def test_docstrings_begin_with_no_clause(docstring: str, faults: int) -> None:
    text = f'class A:\n    def f(self):\n        """{docstring}"""\n'
    assert len(list(clause_docstrings(ast.parse(text), "speck/a.py"))) == faults


def test_the_faults_of_a_tree_are_listed_by_place(tmp_path: Path) -> None:
    (tmp_path / "speck").mkdir()
    module = tmp_path / "speck" / "module.py"
    module.write_text('def f():\n    """The kind of a job."""\n')
    assert examine(tmp_path) == []
    module.write_text('def f():\n    """What it does."""\n\n\ntext = \'stored for good\'\n')
    assert list(map(str, examine(tmp_path))) == [
        "speck/module.py:2: begins with a clause: What it does.",
        "speck/module.py:5: 'for good' is not idiomatic (rather: permanently)",
    ]
