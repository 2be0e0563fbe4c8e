"""The command line.  It talks to the server over REST only; data to stdout, diagnostics to stderr."""

from __future__ import annotations

import os
import sys

import click

import speck
from speck.cli import (
    completion,
    compositions,
    history,
    init,
    local,
    logs,
    look,
    serve,
    sites,
    store,
    top,
    validate,
    watch,
)
from speck.cli.common import INTERRUPTED, err
from speck.cli.completion import PROGRAM
from speck.cli.failing import report
from speck.client import DEFAULT_URL, Client


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(speck.__version__, prog_name="speck")
@click.option("--server", envvar="SPECK_SERVER", default=DEFAULT_URL, show_default=True, help="The server.")
@click.pass_context
def cli(context: click.Context, server: str) -> None:
    """One streaming application out of jobs on different engines at different sites.

    The environment variable SPECK_TOKEN holds the server's token, where it asks for one.
    """
    context.obj = Client(server, os.environ.get("SPECK_TOKEN"))


for command in (
    serve.serve,
    compositions.plan,
    compositions.apply,
    compositions.show_operation,
    compositions.compositions,
    compositions.delete,
    history.history,
    history.diff,
    history.rollback,
    history.events,
    look.jobs,
    look.show,
    look.graph,
    watch.watch,
    top.top,
    logs.logs,
    sites.sites,
    init.init,
    validate.validate,
    completion.completion,
    store.store,
    local.local,
    local.demo,
):
    cli.add_command(command)


def main() -> None:
    """The console script."""
    code = _run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _run() -> int:
    try:
        return cli.main(prog_name=PROGRAM, standalone_mode=False) or 0
    except SystemExit as ended:
        return int(ended.code or 0)
    except Exception as error:
        if os.environ.get("SPECK_DEBUG"):
            raise
        return report(error)
    except KeyboardInterrupt:
        err.print("interrupted")
        return INTERRUPTED
