"""Options that a page names on their own, as in ``--sites FILE``, are options of a program.

The properties of Java that the connectors read are on a page.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from docs.generate.commands import tree
from testbed import ROOT
from tests.support.docs_blocks import PAGES, blocks

_ALONE = re.compile(r"(?<!`)`(--[a-z][a-z-]+)[^`\n]*`")
_IN_SOURCES = re.compile(r'"(--[a-z][a-z-]+)"')
_PROGRAMS = ("benchmarks", "jars_and_apps", "scripts", "speck_baselines", "testbed")
_OF_SPARK = {"--conf", "--jars"}  # of spark-submit
_OF_FLINK_PROGRAMS = {
    *("--job-name", "--source-broker", "--source-topic", "--sink-broker", "--sink-topic"),
    *("--session", "--attempt", "--fence-topic", "--key"),
}


@cache
def options() -> frozenset[str]:
    """The options of speck, and of all programs of this repository."""
    of_speck = {option for _, command in tree() for each in command.params for option in each.opts}
    sources = (path for folder in _PROGRAMS for path in (ROOT / folder).rglob("*.py"))
    of_programs = {name for path in sources for name in _IN_SOURCES.findall(path.read_text(encoding="utf-8"))}
    return frozenset(of_speck | of_programs | _OF_SPARK | _OF_FLINK_PROGRAMS | {"--help"})


# Benchmarks have options whose names are made by their programs.
_OF_USERS = [page for page in PAGES if "benchmarks" not in page.parts]


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in _OF_USERS])
def test_options_are_there(page: Path) -> None:
    fenced = {number for each in blocks(page) for number in range(each.line, each.line + len(each.lines) + 1)}
    unknown = [
        f"{page.name}:{number}: {option}"
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if number not in fenced
        for option in _ALONE.findall(line)
        if option not in options()
    ]
    assert not unknown


def test_every_property_of_java_is_on_the_page() -> None:
    connectors = (ROOT / "jars_and_apps" / "connectors").glob("*/src/main/java/**/*.java")
    sources = "".join(path.read_text(encoding="utf-8") for path in connectors)
    read = set(re.findall(r'"(speck\.(?:sink|source|sql)\.[a-zA-Z]+)"', sources))
    page = (ROOT / "docs" / "mqtt.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(speck\.[\w.]+)` \|", page, re.MULTILINE)) == read
