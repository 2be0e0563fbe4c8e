"""The command that runs the witness of a server and its standby."""

from __future__ import annotations

from pathlib import Path

import click

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--listen",
    "address",
    default="8182",
    show_default=True,
    metavar="[HOST:]PORT",
    help="Address to listen on; beyond loopback, it requires --tls-cert. Port 0 chooses a free one.",
)
@click.option(
    "--file",
    type=_FILE,
    default=Path(".speck/witness.json"),
    show_default=True,
    help="File of the record: which server is the primary.",
)
@click.option(
    "--standby-token",
    "token",
    type=_FILE,
    required=True,
    help="File with the token that the two servers and their witness share.",
)
@click.option("--tls-cert", type=_FILE, help="TLS certificate with its chain (PEM); enables HTTPS.")
@click.option("--tls-key", type=_FILE, help="Private key of the certificate (PEM, without a password).")
def witness(address: str, file: Path, token: Path, tls_cert: Path | None, tls_key: Path | None) -> None:
    """Run the witness of a server and its standby."""
    from speck.server.agents import host_and_port
    from speck.server.pair.witness import serve_witness
    from speck.server.tls import Certificate

    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key must be given together")
    certificate = Certificate(tls_cert, tls_key) if tls_cert is not None and tls_key is not None else None
    place = host_and_port(address, "--listen")
    serve_witness(place, file, token, certificate, lambda url: click.echo(f"Witness at {url}"))
