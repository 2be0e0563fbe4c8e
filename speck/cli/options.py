"""Options and exit codes that several commands share."""

from __future__ import annotations

import getpass
import inspect
import re
import socket
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from speck.client import Client
from speck.core.change import SETTLE
from speck.core.units import SECONDS

NOTHING_TO_DO, ERROR, CHANGES, WAITING, INTERRUPTED = 0, 1, 2, 3, 130  # exit codes
DEFAULT_DIRECTORY = Path(".speck")

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_BARE = re.compile(r"\s*\d+(\.\d+)?\s*\Z", re.ASCII)

file_path = click.Path(exists=True, dir_okay=False, path_type=Path)
file_argument = click.argument("file", type=file_path)
inventory_option = click.option(
    "--sites",
    "inventory",
    type=file_path,
    help="Site inventory [default: the one of `speck local up`, if it exists].",
)


roots_option = click.option(
    "--root",
    "roots",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    default=(Path(),),
    help="Directory of job files, in addition to that of FILE; may be repeated [default: the current "
    "directory].",
)


def json_option(function: _Function) -> _Function:
    """The option ``--json`` of every command that reads."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


class Duration(click.ParamType[float]):
    """A time such as ``60s`` or ``5 minutes``, in seconds; a bare number is in seconds.

    ``least`` and ``most`` are in seconds, ``bounds`` is both as people write them.
    """

    name = "time"

    def __init__(self, least: float, most: float, bounds: str) -> None:
        self._least, self._most, self._bounds = least, most, bounds

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        """The time in seconds."""
        text = f"{value}s" if _BARE.match(str(value)) else str(value)
        try:
            seconds = float(SECONDS.parse(text))
        except ValueError:
            self.fail(f"{value!r} is not a time (expected, for example, 60s or '5 minutes')", param, context)
        if not self._least <= seconds <= self._most:
            self.fail(f"{value!r} is too short or too long (expected {self._bounds})", param, context)
        return seconds


def only_composition(client: Client) -> str:
    """The composition of a server that has one.  Raises :class:`click.UsageError` where it has several."""
    known = [str(each["name"]) for each in client.compositions()]
    if not known:
        raise click.UsageError("no composition is deployed (expected one: speck apply FILE)")
    if len(known) > 1:
        raise click.UsageError(f"a composition is required (expected one of: {', '.join(known)})")
    return known[0]


def limit_option(most: int, default: int) -> Callable[[_Function], _Function]:
    """The option for the length of a list of which only the end is shown."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(1, most),
        default=default,
        show_default=True,
        help="Number of entries to show, the newest ones.",
    )


def _user() -> str:
    """The author of a change by default, for the history: the user and the machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # without a login; versions of Python raise either
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def leave_behind_option(function: _Function) -> _Function:
    """The option that names lost sites, engines and brokers."""
    return click.option(
        "--leave-behind",
        multiple=True,
        metavar="SITE_OR_ADDRESS",
        help="Treat this site, engine or broker as lost: do not contact it now; clean up its jobs when it "
        "responds again (may be repeated).",
    )(function)


def settle_option(function: _Function) -> _Function:
    """The option for the time between two waves."""
    return click.option(
        "--settle",
        type=Duration(0, 3600, "0s to 1h"),
        default=f"{SETTLE:g}s",
        show_default=True,
        metavar="TIME",
        help="Time for which all jobs of a wave must run before the next wave begins.",
    )(function)


def waves_options(function: _Function) -> _Function:
    """The options of a roll-out in waves."""
    return click.option(
        "--wave",
        "waves",
        multiple=True,
        metavar="SITES",
        help="Change these sites first: SITE,SITE, a number (site/2 is the site named 2), or a share such as "
        "10%. Each further --wave is the next one; the remaining sites are the last. If a wave fails, all "
        "sites are rolled back.",
    )(settle_option(function))


def give_up_option(function: _Function) -> _Function:
    """The option that allows messages to be lost."""
    return click.option(
        "--give-up",
        is_flag=True,
        help="Discard messages still unread at a job's old source after the drain deadline (speck serve "
        "--drain); without this option, such a change is rejected or waits.",
    )(function)


def all_code_option(function: _Function) -> _Function:
    """The option that lets every change of a file count."""
    return click.option(
        "--all-code",
        is_flag=True,
        help="Update all jobs of a file when anything in the file changes; by default only jobs that use the "
        "changed code are updated.",
    )(function)


def yes_option(function: _Function) -> _Function:
    """The option that answers the question before a destructive change."""
    return click.option(
        "-y",
        "--yes",
        is_flag=True,
        help="Do not ask for confirmation before stopping jobs permanently, deleting state or discarding "
        "messages; required for such changes when there is no terminal.",
    )(function)


def unfold_option(function: _Function) -> _Function:
    """The option that shows the jobs of a ``for_each`` one by one."""
    return click.option(
        "--unfold",
        is_flag=True,
        help="Show each job of a for_each entry separately.",
    )(function)


def gathered(parameter: str, make: Callable[..., Any], options: Sequence[_Decorator]) -> _Decorator:
    """Options whose values a command gets as one ``parameter``, made of them by ``make``."""
    names = [*inspect.signature(make).parameters]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def with_parameter(*arguments: Any, **given: Any) -> Any:
            made = make(**{name: given.pop(name) for name in names})
            return function(*arguments, **given, **{parameter: made})

        command: Callable[..., Any] = with_parameter
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def author_option(function: _Function) -> _Function:
    """The option for the author of a change."""
    return click.option(
        "--author",
        default=_user,
        show_default="USER@HOST",
        help="Author of the change, for the history.",
    )(function)


def _why(message: str, author: str) -> dict[str, Any]:
    """The reason for a change and its author, as parameters of a request."""
    return {"message": message, "author": author}


_message_option = click.option("-m", "--message", default="", help="Reason for the change, for the history.")

# The options of every command that changes the desired state, as its parameter ``why``.
change_options = gathered("why", _why, (_message_option, author_option))


def default_sites() -> Path | None:
    """The inventory that ``speck local up`` wrote; ``None`` if there is none."""
    path = DEFAULT_DIRECTORY / "local" / "sites.yaml"
    return path if path.exists() else None
