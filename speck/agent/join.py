"""Joining: a site uses its code once, and gets the token and the description of its agent."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

import speck
from speck.agent.machine import machine_id
from speck.agent.site_file import NAME, SiteFile, known_upgrade, read_site_file, write_site_file
from speck.agent.status import forget_epoch
from speck.core.durable_files import replace_file
from speck.core.inventory import Secret, Site, is_loopback
from speck.errors import Fault, InvalidInput
from speck.link.code import JoinCode
from speck.link.codec import Malformed, decode, encode
from speck.link.frames import LARGEST_FRAME, PROTOCOL, Assembly, BadFrame
from speck.link.hello import Joined, JoinRequest
from speck.link.tls import NO_CHECK_TIME, fault_of, shared

_ANSWERING = 30.0  # s, for the server


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The address of a server for agents (``wss://HOST:PORT``), and the authority of its certificate."""

    url: str
    ca_file: str | None = None

    @classmethod
    def of(cls, text: str, code: JoinCode, ca_file: str | None = None) -> Server:
        """The server at ``HOST:PORT``, or at a URL.  Raises :class:`~speck.errors.InvalidInput`."""
        url = text if "://" in text else f"{'wss' if code.fingerprint else 'ws'}://{text}"
        parts = _address(url)
        if parts is None:
            raise _wrong(f"server {text!r} is not an address (expected HOST:PORT, of speck serve --agents)")
        if code.fingerprint and parts.scheme == "ws":
            raise _wrong(
                f"server {text!r} would be reached without TLS (expected HOST:PORT or wss://HOST:PORT)"
            )
        if parts.scheme == "ws" and not is_loopback(parts.hostname or ""):
            raise _wrong(
                f"server {text!r} has no TLS of its own (expected wss://HOST:PORT of a proxy that has, or a "
                "code of a server with --tls-cert)"
            )
        return cls(url=url.rstrip("/"), ca_file=ca_file)

    @property
    def host(self) -> str:
        """The host's name or address."""
        return urlsplit(self.url).hostname or ""


def join(
    text: str,
    server: str,
    directory: Path,
    entry: Mapping[str, Any] | None = None,
    ca_file: str | None = None,
    own: Site | None = None,
) -> SiteFile:
    """Use a code, and write the files of the agent into its directory.

    ``entry`` is the site's entry of an inventory, for a site that the server's inventory lacks; ``own`` is
    the same with the logins, which stay here.  Raises :class:`~speck.errors.InvalidInput`; nothing was
    written then, and the code was used only if the server's answer did not arrive.
    """
    code = JoinCode.parse(text)
    at = Server.of(server, code, ca_file)
    _check_directory(directory, code.site)
    joined, certificate = _asked(at, code, text, entry)
    token = directory / "token"
    replace_file(token, joined.token.encode())
    pinned = None
    if certificate is not None and not _is_trusted(at):
        pinned = directory / "server.pem"
        replace_file(pinned, ssl.DER_cert_to_PEM_cert(certificate).encode())
    described = SiteFile(
        site=_described(joined.site, own),
        coordinator=at.url,
        token=Secret(f"file:{token.absolute()}"),
        ca_file=ca_file,
        certificate_file=None if pinned is None else str(pinned.absolute()),
        upgrade=known_upgrade(directory),
    )
    write_site_file(directory, described)
    forget_epoch(directory)  # of a server that was lost
    return described


def _address(url: str) -> SplitResult | None:
    """The parts of the address of a server for agents; ``None`` for another text."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    right = parts.scheme in ("ws", "wss") and parts.hostname and port is not None
    return parts if right and not parts.path.strip("/") else None


def _described(site: Site, own: Site | None) -> Site:
    """The description of a site: its own, unless the server's inventory has other addresses."""
    if own is None or (own.broker_address, _engines(own)) != (site.broker_address, _engines(site)):
        return site
    return own


def _engines(site: Site) -> set[str]:
    return {each.spe_address for each in site.engines}


def _check_directory(directory: Path, site: str) -> None:
    """Refuse a directory that cannot be written, or is that of another site."""
    if (directory / NAME).exists():
        known = read_site_file(directory).site.name
        if known != site:
            raise _wrong(f"{directory} belongs to site {known!r}, and the code belongs to site {site!r}")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(directory / ".writable", b"")
        (directory / ".writable").unlink()
    except OSError as error:
        raise _wrong(f"{directory} cannot be written: {error.strerror} (give --directory)") from error


def _asked(
    server: Server, code: JoinCode, text: str, entry: Mapping[str, Any] | None
) -> tuple[Joined, bytes | None]:
    """The answer of the server, and its certificate if the code names one."""
    request = JoinRequest(
        protocol=PROTOCOL, version=speck.__version__, code=text, machine=machine_id(), entry=entry
    )
    try:
        with connect(
            f"{server.url}/join",
            ssl=_context(server, code),
            compression=None,
            max_size=LARGEST_FRAME,
            user_agent_header=None,
            proxy=None if is_loopback(server.host) else True,
        ) as websocket:
            certificate = _checked(websocket, server, code)
            websocket.send(json.dumps(encode(request)))
            answer = None
            assembly = Assembly()
            while answer is None:
                answer = assembly.add(websocket.recv(_ANSWERING))
            if "joined" not in answer:
                refused = str(answer.get("refused", "the server's answer has an unknown format"))
                raise InvalidInput([Fault(each) for each in refused.splitlines()], "join")
            return _joined(answer["joined"], server), certificate
    except InvalidStatus as error:
        if error.response.status_code == HTTPStatus.NOT_FOUND:
            raise _wrong(
                f"sites cannot join at {server.url} (expected the address of speck serve --agents, which is "
                "not that of users)"
            ) from error
        body = (error.response.body or b"").decode(errors="replace").strip()
        raise _wrong(f"{server.url} refuses: {body or error.response.status_code}") from error
    except (WebSocketException, OSError, BadFrame) as error:
        raise _wrong(f"{server.url}: {fault_of(error)}") from error


def _joined(answer: object, server: Server) -> Joined:
    """The token and the description in an answer."""
    try:
        found: Joined = decode(Joined, answer, "answer")
    except Malformed as error:
        raise _wrong(
            f"{server.url}: {error} (the site has version {speck.__version__}: install that of the server, "
            "and join with a new code)"
        ) from error
    return found


def _context(server: Server, code: JoinCode) -> ssl.SSLContext | None:
    if server.url.startswith("ws:"):
        return None
    if server.ca_file is not None or not code.fingerprint:
        return _trusting(server.ca_file)
    context = shared(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the code has its fingerprint, see _checked
    return context


def _trusting(ca_file: str | None) -> ssl.SSLContext:
    try:
        return shared(ssl.create_default_context(cafile=ca_file))
    except OSError as error:
        raise _wrong(f"ca_file {ca_file!r} cannot be used: {error.strerror or error}") from error


def _checked(websocket: ClientConnection, server: Server, code: JoinCode) -> bytes | None:
    """The certificate of the server, before anything secret is sent to it."""
    if not code.fingerprint:
        return None
    tls = websocket.socket
    found = tls.getpeercert(binary_form=True) if isinstance(tls, ssl.SSLSocket) else None
    if found is None or not hmac.compare_digest(hashlib.sha256(found).digest(), code.fingerprint):
        raise _wrong(
            f"{server.url} has another certificate than the code names (expected the server that printed the "
            "code, without a proxy that ends TLS)"
        )
    return found


def _is_trusted(server: Server) -> bool:
    """True if the server's certificate is trusted without the code.

    Its dates do not count: the clock may be behind, and the agent would trust a certificate alone that is
    replaced every few months.
    """
    if server.ca_file is not None:
        return True
    context = ssl.create_default_context()
    context.verify_flags |= NO_CHECK_TIME
    try:
        with (
            socket.create_connection((server.host, urlsplit(server.url).port or 0), _ANSWERING) as plain,
            context.wrap_socket(plain, server_hostname=server.host),
        ):
            return True
    except OSError:
        return False


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Fault(message)], "join")
