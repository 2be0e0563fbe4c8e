"""The reference of the command line, from click's own tree of commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from docs.generate import tables
from speck.cli import cli
from speck.cli.options import CHANGES, ERROR, INTERRUPTED, NOTHING_TO_DO, WAITING

Path = tuple[str, ...]

_EXIT_CODES = (
    (NOTHING_TO_DO, "done; of `speck plan`: nothing to do"),
    (ERROR, "an error, printed on standard error"),
    (
        CHANGES,
        "of `speck plan`, `place`, `advise`, and of `--dry-run`: changes; of `fmt --check`: not formatted",
    ),
    (WAITING, "nothing failed, and an action waits (for a site, for capacity); the server retries it"),
    (INTERRUPTED, "interrupted (Ctrl-C); an operation that was begun continues at the server"),
)


def page() -> str:
    """The reference of all commands."""
    return tables.page(_lines())


def tree(command: click.Command = cli, path: Path = ("speck",)) -> Iterator[tuple[Path, click.Command]]:
    """All commands with their words, a group before its members."""
    yield path, command
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            if not command.commands[name].hidden:
                yield from tree(command.commands[name], (*path, name))


def _lines() -> Iterator[str]:
    yield from ("# Commands", "")
    yield from ("Generated from the program: `speck COMMAND --help` prints the same.", "")
    yield from ("Data goes to standard output, everything else to standard error. Exit codes:", "")
    yield from tables.table(["code", "meaning"], [[str(code), meaning] for code, meaning in _EXIT_CODES])
    for path, command in tree():
        yield from _section(path, command)


def _section(path: Path, command: click.Command) -> Iterator[str]:
    context = _context(path, command)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield from (f"## {' '.join(path)}", "", "```text", usage, "```", "")
    yield from (_help(command), "")
    yield from tables.table(["argument or option", "meaning"], list(_parameters(command, context)))
    if isinstance(command, click.Group):
        inner = [(name, each) for name, each in sorted(command.commands.items()) if not each.hidden]
        links = [[_link((*path, name)), each.get_short_help_str(200)] for name, each in inner]
        yield from tables.table(["command", "purpose"], links)


def _context(path: Path, command: click.Command) -> click.Context:
    """A context in which a command's usage has all of its words."""
    outer = None
    for name in path[:-1]:
        outer = click.Context(cli, info_name=name, parent=outer)
    return click.Context(command, info_name=path[-1], parent=outer)


def _help(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "").replace("\b\n", "")


def _parameters(command: click.Command, context: click.Context) -> Iterator[list[str]]:
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            record = parameter.get_help_record(context)
            if record is not None:
                yield [tables.code(record[0]), record[1]]
        elif text := getattr(parameter, "help", None):
            yield [tables.code(parameter.make_metavar(context)), text]


def _link(path: Path) -> str:
    return f"[{' '.join(path)}](#{'-'.join(path)})"
