"""The description of a site at its agent: ``site.json`` in the agent's directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from speck.core.durable_files import replace_file
from speck.core.inventory import Secret, Site, is_loopback
from speck.errors import Fault, InvalidInput
from speck.link.codec import Malformed, decode, encode

FORMAT = 1
NAME = "site.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFile:
    """The site, the ``coordinator``'s address (``wss://HOST:PORT``), and a reference to the site's token.

    A coordinator with a standby has two addresses, divided by a comma.
    ``ca_file`` is the authority of the coordinator's certificate (PEM); ``None``: those of the system.
    ``certificate_file`` is that certificate itself (PEM), which is then the only one that is trusted.
    ``upgrade`` is the path of the program that installs another version of the agent; ``None``: none does.
    """

    site: Site
    coordinator: str
    token: Secret
    ca_file: str | None = None
    certificate_file: str | None = None
    upgrade: str | None = None

    def __post_init__(self) -> None:
        """Check the addresses and the path.  Raises :class:`~speck.errors.InvalidInput`."""
        for address in self.addresses:
            _check(address)
        if self.upgrade is not None and not Path(self.upgrade).is_absolute():
            raise _wrong(f"upgrade {self.upgrade!r} is not an absolute path (expected /DIRECTORY/PROGRAM)")

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of the coordinator, and of its standby."""
        return tuple(each.strip() for each in self.coordinator.split(","))


def _check(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme not in ("ws", "wss") or not parts.hostname or parts.port is None or parts.path:
        raise _wrong(f"coordinator {address!r} is not an address (expected wss://HOST:PORT)")
    if parts.scheme == "ws" and not is_loopback(parts.hostname):
        raise _wrong(f"coordinator {address!r} would be reached without TLS (expected wss://HOST:PORT)")


def read_site_file(directory: Path) -> SiteFile:
    """The description in an agent's directory.  Raises :class:`~speck.errors.InvalidInput`."""
    path = directory / NAME
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise Malformed(f"format is {data.get('format') if isinstance(data, Mapping) else None!r}")
        given: dict[str, Any] = {key: value for key, value in data.items() if key != "format"}
        found: SiteFile = decode(SiteFile, given, "site.json")
    except FileNotFoundError:
        raise _wrong(f"{path} does not exist (make it with: speck sites join, or speck agent init)") from None
    except OSError as error:
        raise _wrong(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise _wrong(
            f"{path} is not the description of a site: {error} (expected format {FORMAT})"
        ) from error
    return found


def known_upgrade(directory: Path) -> str | None:
    """``upgrade`` of the description in a directory, which another description keeps."""
    try:
        return read_site_file(directory).upgrade
    except InvalidInput:
        return None


def write_site_file(directory: Path, found: SiteFile) -> Path:
    """Write the description, whose pools and scaling are the coordinator's alone; returns its path."""
    engines = tuple(replace(each, scale=None, hook=None) for each in found.site.engines)
    data = {"format": FORMAT, **encode(replace(found, site=replace(found.site, engines=engines)))}
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(directory / NAME, (json.dumps(data, indent=2) + "\n").encode())
    return directory / NAME


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Fault(message)], "agent")
