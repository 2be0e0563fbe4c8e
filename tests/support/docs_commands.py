"""Checks that the commands which the documentation names exist with their options: speck, make, Python."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import click

from speck.cli import cli
from testbed import ROOT

_PLACEHOLDER = re.compile(r"\[|…|\.\.\.")
_TARGETS = frozenset(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

_OF_TESTBED = re.compile(r"\btestbed(?:\.[a-z_]+)+")


def fault(words: list[str], *, whole: bool = True) -> str | None:
    """The fault of a command, or None; the commands of other programs are not checked.

    ``whole``: the command stands as a reader types it; otherwise arguments may be missing.
    """
    program = Path(words[0]).name if words else ""
    if program == "speck":
        return speck_fault(words[1:], whole=whole)
    if program == "make":
        return _make_fault(words[1:])
    if program.startswith("python") and words[1:2] == ["-m"]:
        return _module_fault(words[2:])
    return None


def speck_fault(words: list[str], *, whole: bool) -> str | None:
    """The fault of a command of speck itself, or None."""
    command: click.Command = cli
    context = click.Context(cli, info_name="speck")
    rest = [each for each in words if not _PLACEHOLDER.search(each)]
    while isinstance(command, click.Group):
        try:
            _, rest, _ = command.make_parser(context).parse_args(list(rest))
        except click.UsageError as error:
            return error.format_message()
        if not rest or (len(rest) == 1 and rest[0].isupper()):
            return None
        name, *rest = rest
        inner = command.get_command(context, name)
        if inner is None:
            return f"{context.command_path} has no command {name!r}"
        command, context = inner, click.Context(inner, info_name=name, parent=context)
    return _arguments_fault(command, context, rest, whole)


def _arguments_fault(
    command: click.Command, context: click.Context, rest: list[str], whole: bool
) -> str | None:
    try:
        values, extra, _ = command.make_parser(context).parse_args(rest)
    except click.UsageError as error:
        # `--rate` by itself in the text names the option, not a use of it.
        named = not whole and isinstance(error, click.BadOptionUsage) and "requires" in error.format_message()
        missing = not whole and isinstance(error, click.BadArgumentUsage | click.MissingParameter)
        return None if named or missing else error.format_message()
    if extra:
        return f"{context.command_path} takes no further {extra[0]!r}"
    if whole:
        for parameter in command.params:
            given = values.get(parameter.name or "")
            there = isinstance(given, str | tuple) and bool(given)  # click marks what is missing by an object
            if isinstance(parameter, click.Argument) and parameter.required and not there:
                return f"{context.command_path} needs {parameter.make_metavar(context)}"
    return None


def _make_fault(words: list[str]) -> str | None:
    targets = [each for each in words if "=" not in each and not each.startswith("-")]
    unknown = [each for each in targets if each not in _TARGETS]
    return f"make has no target {unknown[0]!r}" if unknown else None


def _module_fault(words: list[str]) -> str | None:
    """The fault of ``python -m MODULE``, or None: the module exists, and its source names the options."""
    module, *rest = words
    if (
        module.split(".")[0] not in ("benchmarks", "speck", "testbed", "tests")
        or module.isupper()
        or "NAME" in module
    ):
        return None
    source = _source(module)
    if source is None:
        return f"there is no module {module!r}"
    # A benchmark may run trials of the test bed, which have options of their own.
    source += "".join(_source(name) or "" for name in set(_OF_TESTBED.findall(source)))
    options = [each.strip("[]").split("=")[0] for each in rest if each.strip("[").startswith("--")]
    unknown = [each for each in options if f'"{each}"' not in source]
    return f"{module} has no option {unknown[0]}" if unknown else None


def _source(module: str) -> str | None:
    """The source of a module, or of all modules of a package; ``None`` if there is none of the name."""
    specification = importlib.util.find_spec(module)
    if specification is None:
        return None
    places = [Path(specification.origin)] if specification.origin else []
    for place in specification.submodule_search_locations or ():
        places += Path(place).glob("*.py")
    return "".join(path.read_text(encoding="utf-8") for path in places)
