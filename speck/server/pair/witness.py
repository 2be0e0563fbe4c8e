"""The process of a witness."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from speck.core.inventory import is_loopback
from speck.errors import Fault, InvalidInput
from speck.server.pair.app import create_pair_app
from speck.server.pair.standby import pair_token
from speck.server.process import listen
from speck.server.signals import Signals
from speck.server.tls import Certificate
from speck.server.wsgi import WebServer
from speck.standby.witness import Witness


def serve_witness(
    address: tuple[str, int],
    file: Path,
    token_file: Path,
    certificate: Certificate | None,
    ready: Callable[[str], object],
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP; ``ready`` is called with the URL once it answers.

    Raises :class:`~speck.errors.SpeckError` when the witness cannot start.
    """
    host, port = address
    if not is_loopback(host) and certificate is None:
        text = f"--listen {host}:{port} is open to others without TLS (give --tls-cert and --tls-key)"
        raise InvalidInput([Fault(text)], "witness")
    witness, token = Witness(file), pair_token(token_file)

    def state() -> dict[str, Any]:
        vote = witness.vote
        detail = f"this is a witness; the primary is at {vote.url} (epoch {vote.epoch})"
        return {"detail": detail if vote.epoch else "this is a witness; no server was the primary yet"}

    with Signals() as signals, closing(listen(host, port, "--listen")) as listener:
        app = create_pair_app(witness.handle, token, state)
        server = WebServer(app, listener, certificate=certificate)
        signals.on_first = server.end
        scheme = "http" if certificate is None else "https"
        ready(f"{scheme}://{host}:{listener.getsockname()[1]}")
        server.run()
