"""The command line.  It talks to the server over REST only; data to stdout, diagnostics to stderr."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

import speck
from speck.cli import compositions, history, local, look, serve, store
from speck.cli.common import ERROR, INTERRUPTED, err
from speck.client import DEFAULT_URL, Client, RequestRefused
from speck.errors import InvalidInput, SpeckError


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
    look.sites,
    look.graph,
    store.store,
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
