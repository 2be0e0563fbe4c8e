"""The command that runs the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from speck.cli.options import default_sites
from speck.cli.variables import values, variables_options
from speck.core.inventory import Inventory
from speck.core.settings import Option, ServerSettings, options, with_options

_Function = TypeVar("_Function", bound=Callable[..., Any])
_DEFAULTS = ServerSettings()


def _settings_options(function: _Function) -> _Function:
    """The options of all settings, and after the inventory's those of the variables in it."""
    for name, default, option in reversed(list(options(_DEFAULTS))):
        if option.flag:
            function = _option(default, option)(function)
        if name == "roots":
            function = variables_options(function)
    return function


def _option(default: Any, option: Option) -> Callable[[_Function], _Function]:
    shown = option.shows_default and default is not None
    return click.option(
        option.flag,
        option.name,
        type=_type(option),
        metavar=option.unit or None,
        multiple=option.repeated,
        default=default // option.scale if option.scale > 1 else default,
        show_default=shown,
        help=option.help,
    )


def _type(option: Option) -> click.ParamType[Any]:
    if option.kind is Path:
        inner = {"file_okay": False} if option.directory else {"dir_okay": False}
        return click.Path(exists=option.exists, path_type=Path, **inner)
    if option.kind is int:
        return click.IntRange(option.least, option.most)  # type: ignore[arg-type]
    return click.FloatRange(option.least, option.most) if option.kind is float else click.STRING


@click.command()
@_settings_options
@click.option("-v", "--verbose", is_flag=True, help="Log at level info and above.")
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),
    help="Lowest level to log [default: warning].",
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Log as text or as JSON objects, to standard error.",
)
def serve(
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
    verbose: bool,
    log_level: str | None,
    log_format: str,
    **given: Any,
) -> None:
    """Run the server."""
    from speck.logs import configure
    from speck.server.process import serve as run

    configure(log_format, log_level or ("info" if verbose else "warning"))
    chosen = with_options(_DEFAULTS, given)
    chosen = replace(chosen, sites=chosen.sites or default_sites())
    run(
        chosen,
        variables=values(env_files, settings, chosen.sites),
        ready=lambda url, inventory: click.echo("\n".join(_served(url, chosen, inventory))),
    )


def _served(url: str, settings: ServerSettings, inventory: Inventory) -> Iterator[str]:
    """The address of a server, and the files that it uses."""
    yield f"SpecK serves {url}"
    if settings.sites is None:
        yield "  sites  no inventory: jobs must name addresses (--sites FILE, or `speck local up`)"
    else:
        yield f"  sites  {settings.sites.absolute()} ({', '.join(inventory.sites) or 'none'})"
    yield f"  code   {', '.join(str(root.absolute()) for root in settings.coordinator.roots)}"
    if settings.agents is not None:
        yield f"  agents {settings.agents}"
    yield f"  store  {settings.data_dir.absolute()}"
