"""The command line: a client of the REST interface, with data on stdout and diagnostics on stderr."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import click

import speck
from speck.cli.completion import PROGRAM
from speck.cli.errors import report
from speck.cli.options import INTERRUPTED
from speck.cli.terminal import err, escape_unencodable
from speck.client import DEFAULT_URL, Client, explained
from speck.server.tokens import token_of

_MODULES = {
    "adaptation": ("adapt",),
    "adoption": ("adopt",),
    "agent": ("agent",),
    "completion": ("completion",),
    "compositions": ("apply", "compositions", "delete", "left-behind", "operation", "plan"),
    "demo_command": ("demo",),
    "doctor": ("doctor",),
    "fmt": ("fmt",),
    "graph": ("graph",),
    "history": ("diff", "events", "history", "operations", "rollback"),
    "init": ("init",),
    "jobs": ("jobs", "show"),
    "local": ("local",),
    "logs": ("logs",),
    "placement": ("accept", "advise", "pin", "place", "policies", "unpin"),
    "profile": ("profile",),
    "schema": ("schema",),
    "serve": ("serve",),
    "sites": ("sites",),
    "split": ("split",),
    "sql": ("sql",),
    "store": ("store",),
    "token": ("token",),
    "topics": ("topics",),
    "top": ("top",),
    "validate": ("validate",),
    "watch": ("watch",),
    "witness": ("witness",),
    "workers": ("workers",),
}


# The sections of `speck --help`, in their order; each command is in one of them.
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Main commands": ("plan", "apply", "jobs", "show", "logs", "history", "rollback", "delete", "serve"),
    "Placement": ("place", "advise", "accept", "pin", "unpin", "adapt", "profile", "policies"),
    "Inspect": (
        *("compositions", "operations", "operation", "diff", "events"),
        *("top", "watch", "graph", "split"),
    ),
    "Operate": ("doctor", "left-behind", "adopt", "store", "token", "witness"),
    "Sites": ("sites", "workers", "agent"),
    "Files": ("init", "validate", "fmt", "schema", "sql", "topics"),
    "This machine": ("local", "demo", "completion"),
}


class Commands(Mapping[str, click.Command]):
    """The commands by name; the module of one is imported when it is looked up: all together take 0.2 s."""

    _module_of: ClassVar = {name: module for module, names in _MODULES.items() for name in names}

    def __getitem__(self, name: str) -> click.Command:
        module = importlib.import_module(f"speck.cli.{self._module_of[name]}")
        found: click.Command = getattr(module, name.replace("-", "_"))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._module_of)

    def __len__(self) -> int:
        return len(self._module_of)


# Commands of other tools, by the one that does it here.
_ELSEWHERE = {
    **dict.fromkeys(("deploy", "run", "start", "update", "submit"), "apply"),
    **dict.fromkeys(("destroy", "remove", "rm", "undeploy"), "delete"),
    **dict.fromkeys(("status", "ps", "ls", "list", "get"), "jobs"),
    **dict.fromkeys(("describe", "inspect"), "show"),
    **dict.fromkeys(("lint", "check"), "validate"),
    **dict.fromkeys(("undo", "revert"), "rollback"),
    **{"up": "local up", "down": "local down"},
    **{"format": "fmt", "server": "serve", "preview": "plan", "new": "init"},
}


class Program(click.Group):
    """The group of all commands, whose help lists them by section."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of a name.  For one that another tool has, the error names the command to use here."""
        if args[0] in _ELSEWHERE and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean {_ELSEWHERE[args[0]]!r}?", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, context: click.Context) -> Any:
        """Run the command; an error that a server of another version explains has both versions."""
        try:
            return super().invoke(context)
        except Exception as error:
            client = context.obj
            other = explained(error, client) if isinstance(client, Client) else None
            if other is None:
                raise
            raise other from error

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections; see :meth:`click.Group.format_commands`."""
        width = formatter.width - 6 - max(map(len, self.commands))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name, self.commands[name].get_short_help_str(width)) for name in names],
                    col_max=max(map(len, self.commands)),
                )


_SETTINGS = {"help_option_names": ["-h", "--help"]}


@click.group(cls=Program, commands=Commands(), context_settings=_SETTINGS)
@click.version_option(speck.__version__, prog_name="speck")
@click.option(
    "--server",
    envvar=["SPECK_URL", "SPECK_SERVER"],
    metavar="URL",
    default=DEFAULT_URL,
    show_default=True,
    help="Address of the server, or URL,URL of a pair with a standby [or SPECK_URL].",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with the token that the server requires [or SPECK_TOKEN_FILE, or the token in SPECK_TOKEN].",
)
@click.option(
    "--ca",
    envvar="SPECK_CA",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="PEM file of the authority that signed the server's certificate [or SPECK_CA].",
)
@click.option(
    "--proxy",
    envvar="SPECK_PROXY",
    metavar="URL",
    help="Proxy to reach the server through; none by default [or SPECK_PROXY].",
)
@click.pass_context
def cli(
    context: click.Context, server: str, token_file: Path | None, ca: Path | None, proxy: str | None
) -> None:
    """Compose one streaming application out of jobs on different engines at different sites."""
    context.obj = Client(server, partial(token_of, os.environ, token_file), ca, proxy)


def main() -> None:
    """The console script."""
    escape_unencodable()
    code = _run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the pipe has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _run() -> int:
    try:
        return cli.main(prog_name=PROGRAM, standalone_mode=False) or 0
    except SystemExit as ended:
        return int(ended.code or 0)
    except Exception as error:  # reported in one line with how to get its traceback, not as a traceback
        if os.environ.get("SPECK_DEBUG"):
            raise
        return report(error, as_json="--json" in sys.argv)
    except KeyboardInterrupt:
        err.print("interrupted")
        return INTERRUPTED
