"""The fenced blocks of the documentation, and the comments before them.

A comment on the line before a fence is for the tests, and is not seen by readers:

- ``<!-- file: NAME -->``: the block is saved under this name, for the commands that follow;
- ``<!-- not run: WHY -->``: its commands are only looked up (do they exist, with these options?);
- ``<!-- any order -->``: its output may come in any order of lines;
- ``<!-- figures vary -->``: each line of its output is compared up to its first figure;
- ``<!-- until shown -->``: it is typed again and again until it prints what is shown;
- ``<!-- fragment: WHY -->``: it is not whole, and so not compiled or loaded.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from testbed import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")),
    *sorted((ROOT / "benchmarks").glob("*/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]

_FENCE = re.compile(r"(?P<indent> *)```(?P<language>[\w{}-]*)\s*\Z")
_NOTE = re.compile(r"\s*<!-- (?P<name>[a-z ]+?)(: (?P<text>.*))? -->\s*\Z")
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """One fenced block: where it begins, its language, its lines, and the note before it."""

    page: Path
    line: int
    language: str
    lines: tuple[str, ...]
    heading: str
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Step:
    """One command of a block, and the output that the page shows for it (None: it shows none)."""

    command: str
    shown: tuple[str, ...] | None


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in their order."""
    return list(_blocks(page, page.read_text(encoding="utf-8").splitlines()))


def only_block(page: str, language: str) -> str:
    """The text of the one block of a page of ``docs`` that is in this language."""
    (found,) = (each.text for each in blocks(ROOT / "docs" / page) if each.language == language)
    return found


def _blocks(page: Path, lines: list[str]) -> Iterator[Block]:
    notes: dict[str, str] = {}
    heading = ""
    index = 0
    while index < len(lines):
        line = lines[index]
        index += 1
        if note := _NOTE.match(line):
            notes[note["name"]] = note["text"] or ""
        elif fence := _FENCE.match(line):
            begin, indent = index, len(fence["indent"])
            while lines[index].strip() != "```":
                index += 1
            body = tuple(each[indent:] for each in lines[begin:index])
            index += 1
            yield Block(page, begin, fence["language"], body, heading, notes)
            notes = {}
        else:
            if line.startswith("#"):
                heading = line.lstrip("# ")
            notes = notes if not line.strip() else {}


def steps(block: Block) -> list[Step]:
    """The commands: of ``sh`` each line, of ``console`` those behind a ``$``, with the output below them."""
    if block.language == "sh":
        joined = block.text.replace("\\\n", " ")
        return [Step(command, None) for line in joined.splitlines() if (command := _without_comment(line))]
    found: list[Step] = []
    for line in block.lines:
        if line.startswith("$ "):
            found.append(Step(_without_comment(line[2:]), ()))
        elif found:
            found[-1] = Step(found[-1].command, (*(found[-1].shown or ()), line))
    return found


def inline_commands(page: Path, name: str) -> Iterator[tuple[int, str]]:
    """Commands that begin with this word in code within the text, with their lines."""
    fenced = {number for each in blocks(page) for number in range(each.line, each.line + len(each.lines) + 1)}
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if number not in fenced:
            for code in _CODE.findall(line):
                yield from ((number, each) for each in _alternatives(code) if each.split()[:1] == [name])


def _alternatives(code: str) -> list[str]:
    """``speck history|diff NAME`` and ``speck store backup | restore`` stand for a command each.

    What comes behind a ``|`` and is a program of the system stands for itself.
    """
    code = re.split(r"\s\\?\|\s+(?=(?:head|tail|less|grep|jq|sort|wc|tee|cat)\b)", code)[0]
    words = re.sub(r"\s*\\?\|\s*", "|", code).split()
    for index, word in enumerate(words):
        if "|" in word:
            return [" ".join([*words[:index], each, *words[index + 1 :]]) for each in word.split("|")]
    return [" ".join(words)]


def words(command: str) -> list[str]:
    """A command's words without assignments before it and redirections behind it."""
    found = shlex.split(command.rstrip("& "))
    while found and re.match(r"[A-Z_]+=", found[0]):
        found = found[1:]
    for index, word in enumerate(found):
        if word in ("|", ">", "<", "&&", ";", "2>&1", "2>", ">>"):
            return found[:index]
    return found


def typed(page: Path) -> list[Block]:
    """The blocks of a page that a reader saves or types."""
    found = [each for each in blocks(page) if each.language in ("sh", "console") or "file" in each.notes]
    return [each for each in found if "not run" not in each.notes]


def _without_comment(line: str) -> str:
    """A line without the comment that a shell would not see either."""
    characters, quote = [], ""
    for index, each in enumerate(line):
        if each == "#" and not quote and (index == 0 or line[index - 1].isspace()):
            break
        if each in "'\"" and quote in ("", each):
            quote = "" if quote else each
        characters.append(each)
    return "".join(characters).strip()
