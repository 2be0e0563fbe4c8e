"""The command line.  It talks to the server over REST only; data to stdout, diagnostics to stderr."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

import speck
from speck.cli import compositions, history, local, look, serve, store, token
from speck.cli.common import ERROR, INTERRUPTED, err
from speck.client import DEFAULT_URL, Client, RequestRefused
from speck.errors import InvalidInput, SpeckError
from speck.tokens import token_of


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(speck.__version__, prog_name="speck")
@click.option(
    "--server",
    envvar=["SPECK_URL", "SPECK_SERVER"],
    metavar="URL",
    default=DEFAULT_URL,
    show_default=True,
    help="The server [or SPECK_URL].",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with the token, where one is asked for [or SPECK_TOKEN_FILE, or the token in SPECK_TOKEN].",
)
@click.option(
    "--ca",
    envvar="SPECK_CA",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="PEM file of the authority behind the server's certificate [or SPECK_CA].",
)
@click.pass_context
def cli(context: click.Context, server: str, token_file: Path | None, ca: Path | None) -> None:
    """One streaming application out of jobs on different engines at different sites."""
    context.obj = Client(server, partial(token_of, os.environ, token_file), ca)


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
    look.sites,
    look.graph,
    store.store,
    token.token,
    local.local,
    local.demo,
):
    cli.add_command(command)


def main() -> None:
    """The console script."""
    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()  # exit code 1, since 2 means that a plan has changes
        code = ERROR
    except (click.Abort, KeyboardInterrupt):
        err.print("interrupted")
        code = INTERRUPTED
    except RequestRefused as error:
        _complain(error, [fault_line(fault) for fault in error.faults])
        code = ERROR
    except InvalidInput as error:
        _complain(error, [str(fault) for fault in error.faults])
        code = ERROR
    except SpeckError as error:
        _complain(error, [])
        code = ERROR
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ERROR
    except OSError as error:
        # A file or directory that a user named, of which nobody below knows more than the system says.
        _complain(SpeckError(f"{error.filename or 'the system'}: {error.strerror or error}"), [])
        code = ERROR
    sys.exit(code or 0)


def fault_line(fault: dict[str, Any]) -> str:
    line = f"line {fault['line']}: " if fault.get("line") else ""
    job = f"job {fault['job']!r}: " if fault.get("job") else ""
    return f"{line}{job}{fault['message']}"


def _complain(error: Exception, faults: list[str]) -> None:
    for text in faults or [str(error)]:
        err.print(f"error: {text}", style="red", markup=False)
