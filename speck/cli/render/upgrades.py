"""Upgrades of the agents of sites, as lines and a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from speck.cli.render.tables import table
from speck.cli.render.values import Data


def upgrade_lines(upgrade: Data) -> Iterator[RenderableType]:
    """The waves of an upgrade with the present and new versions, and the sites that are left out."""
    if upgrade["sites"]:
        rows = (
            (each["wave"], each["site"], each["version"], upgrade["version"]) for each in upgrade["sites"]
        )
        yield table(("WAVE", "SITE", "NOW", "THEN"), rows)
    if upgrade["current"]:
        yield Text(f"already at version {upgrade['version']}: {', '.join(upgrade['current'])}")
    if upgrade["away"]:
        yield Text(f"left out, the agent is away: {', '.join(upgrade['away'])}", style="yellow")


def upgraded_line(upgrade: Data, site: Data) -> Text:
    """The progress at one site."""
    line = Text(f"{site['site']}: ")
    said = {"upgraded": f"version {upgrade['version']}", "failed": site["error"]}.get(site["state"], "")
    line.append(site["state"], style={"upgraded": "green", "failed": "red"}.get(site["state"], ""))
    return line.append(f" ({said})" if said else "")


def upgrade_wave_text(upgrade: Data) -> str:
    """The wave in progress, and the reason why the next one waits."""
    waits = f": {upgrade['waits']}" if upgrade["waits"] else ""
    return f"wave {upgrade['wave']} of {len(upgrade['waves'])}{waits}"


def upgrade_summary(upgrade: Data) -> Text:
    """The outcome of an upgrade."""
    done = _named(upgrade["sites"], "upgraded")
    if upgrade["state"] == "succeeded":
        return Text(f"{len(done)} agents have version {upgrade['version']}", style="green")
    line = Text(f"the upgrade stopped in {upgrade['error']}", style="red")
    left = _named(upgrade["sites"], "untouched")
    return line.append(f"\nupgraded: {', '.join(done) or 'none'}; not touched: {', '.join(left) or 'none'}")


def _named(sites: Iterable[Data], state: str) -> list[str]:
    return [each["site"] for each in sites if each["state"] == state]
