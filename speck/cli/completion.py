"""Shell completion: the command that prints a shell's script, and the candidates that the server lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from speck.cli.shells import SHELLS, register
from speck.client import Client
from speck.errors import SpeckError

register()

PROGRAM = "speck"
VARIABLE = "_SPECK_COMPLETE"
_REQUEST_TIME = 5.0  # s; the shell waits for the answer

_INSTALL = """\b
Place of the script:
  bash   speck completion bash > ~/.local/share/bash-completion/completions/speck
  zsh    speck completion zsh > ~/.zfunc/_speck      (a directory of $fpath)
  fish   speck completion fish > ~/.config/fish/completions/speck.fish
"""


@click.command(epilog=_INSTALL)
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script for shell completion.  It completes commands, options and names."""
    made = SHELLS[shell](context.find_root().command, {}, PROGRAM, VARIABLE)
    click.echo(made.source(), nl=False)


def _candidates(context: click.Context, incomplete: str, ask: Callable[[Client], Iterable[str]]) -> list[str]:
    """The names that begin with the typed text; none when the server does not answer."""
    root = context.find_root()
    assert root.command.callback is not None  # noqa: S101 - it creates the client, as for any command
    try:
        with root:
            root.invoke(root.command.callback, **root.params)
        client: Client = root.obj
        client.read_timeout = _REQUEST_TIME
        known = list(ask(client))
    except SpeckError:
        return []
    return sorted(name for name in known if name.startswith(incomplete))


def _jobs(client: Client) -> list[str]:
    return [str(each["job_name"]) for each in client.jobs()]


def _compositions(client: Client) -> list[str]:
    return [str(each["name"]) for each in client.compositions()]


def _splits(client: Client) -> list[str]:
    return [str(each["name"]) for each in client.splits()]


def job_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The jobs of the server."""
    return _candidates(context, incomplete, _jobs)


def composition_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The compositions of the server."""
    return _candidates(context, incomplete, _compositions)


def split_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The splits of the server."""
    return _candidates(context, incomplete, _splits)


def names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Compositions, or jobs where the command was given ``--job``."""
    return _candidates(context, incomplete, _jobs if context.params.get("job") else _compositions)


job_argument = click.argument("job", shell_complete=job_names)
composition_argument = click.argument("name", shell_complete=composition_names)
