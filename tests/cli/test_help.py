"""The help of ``speck``: its sections, and the line of each command."""

from __future__ import annotations

from collections import Counter

from speck.cli import SECTIONS, cli
from tests.fixtures.speck_command import Speck

FIRST = ("plan", "apply", "jobs", "show", "logs", "history", "rollback", "delete", "serve")


def test_each_command_is_in_one_section() -> None:
    assert Counter(name for names in SECTIONS.values() for name in names) == Counter(list(cli.commands))


def test_the_help_lists_the_main_commands_first_and_the_rest_by_section(speck: Speck) -> None:
    lines = speck("--help").out.splitlines()
    start = lines.index("Main commands:")
    assert tuple(line.split()[0] for line in lines[start + 1 : start + 1 + len(FIRST)]) == FIRST
    titles = [line[:-1] for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options", *SECTIONS]


def test_the_line_of_a_command_is_not_cut(speck: Speck) -> None:
    lines = speck("--help").out.splitlines()
    assert [line for line in lines if line.startswith("  ") and line.endswith("...")] == []
