"""The checks of words and docstrings, on small texts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts.prose import ALLOWED, MOST_CLAUSES, clause_docstrings, examine, report, retired_identifiers


def retired(text: str, path: str = "speck/module.py") -> list[str]:
    return [each.message.split(":")[0] for each in retired_identifiers(ast.parse(text), path)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def settle(): ...", ["settle"]),
        ("async def _take_up(self): ...", ["_take_up"]),
        ("class Ledger: ...", ["Ledger"]),
        ("class TellsMany: ...", ["TellsMany"]),
        ("def run(told): ...", ["told"]),
        ("for stray in found: ...", ["stray"]),
        ("self._kept = 1", ["_kept"]),
        ("left = []", ["left"]),
        ("_left_copies: list[int] = []", ["_left_copies"]),
        ("from a import b as parcel", ["parcel"]),
        ("with a() as (first, turn): ...", ["turn"]),
        ("GIVEN_UP = 1", ["GIVEN_UP"]),
    ],
)
def test_retired_words_are_found_wherever_a_name_is_bound(text: str, names: list[str]) -> None:
    assert retired(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "time_left = deadline - now",
        "lookup = {}",
        "hotels = returned = outlook = 1",
        "told(1)",  # a use; the place that binds it is reported
        "'told, kept, left'",
        "def test_a_copy_that_was_left_is_fenced(): ...",
    ],
)
def test_other_names_pass(text: str) -> None:
    assert retired(text) == []


@pytest.mark.parametrize("name", ALLOWED)
def test_names_of_users_keep_their_spelling_where_they_are_bound(name: str) -> None:
    place, _ = ALLOWED[name]
    assert retired(f"{name} = 1", f"{place}schemas.py") == []
    assert retired(f"{name} = 1", "binders/a.py") == ([name] if place else [])


def test_modules_have_names_too() -> None:
    assert retired("", "speck/leftovers.py") == ["leftovers"]
    assert retired("", "tests/store/test_leftovers.py") == []


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


def test_a_tree_passes_until_there_are_too_many_clauses(tmp_path: Path) -> None:
    (tmp_path / "speck").mkdir()
    module = tmp_path / "speck" / "module.py"
    function = 'def f{}():\n    """What it does."""\n'
    module.write_text("".join(map(function.format, range(MOST_CLAUSES))))
    assert report(*examine(tmp_path)) == []
    module.write_text("".join(map(function.format, range(MOST_CLAUSES + 1))))
    lines = report(*examine(tmp_path))
    assert lines[0] == "speck/module.py:2: begins with a clause: What it does."
    assert lines[-1] == f"{MOST_CLAUSES + 1} docstrings begin with a clause (at most {MOST_CLAUSES})"
    module.write_text("kept = 1\n")
    (line,) = report(*examine(tmp_path))
    assert line == "speck/module.py:1: kept: 'kept' is retired (rather: retained)"
