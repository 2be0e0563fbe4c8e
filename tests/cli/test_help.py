"""The help of ``speck``: its sections, the line of each command, and the options that messages name."""

from __future__ import annotations

import ast
import re
from collections import Counter

from docs.generate.commands import tree
from scripts.prose import strings
from speck.cli import SECTIONS, cli
from testbed import ROOT
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


# Options of other programs, in scripts for fish and in the remedies of health checks.
_OF_OTHERS = {"--arguments", "--command", "--no-files", "--conf", "--jars"}


def test_an_option_that_a_message_names_is_one_of_speck() -> None:
    known = _OF_OTHERS.union(*(each.opts for _, command in tree() for each in command.params))
    unknown = [
        f"{path.relative_to(ROOT)}:{line}: {option}"
        for package in ("speck", "binders")
        for path in sorted((ROOT / package).rglob("*.py"))
        for text, line in strings(ast.parse(path.read_text(encoding="utf-8")))
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)
        if option not in known
    ]
    assert not unknown
