"""The channel of PySpark's own client, in the process that runs a job's code.

PySpark needs one of the package grpc, which takes 10 MB: only :mod:`binders.spark.connect.forked_child`, in
whose process PySpark is, imports this module.  All else uses :mod:`binders.spark.connect.grpc_channel`.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc  # type: ignore[import-untyped]

from binders.spark.connect.credentials import Keys, tls_context

_OPTIONS = (
    ("grpc.max_receive_message_length", 64 << 20),
    # Otherwise a channel that failed repeats its old failure for up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A proxy for web pages (http_proxy) would have to resolve and reach the engine itself.
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


def open_channel(host: str, port: int, keys: Keys) -> grpc.Channel:
    """A channel to a server.  Raises :class:`~speck.errors.Unreachable` if the login cannot be used."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    credentials = _credentials(f"sc://{target}", host, keys)
    if credentials is None:
        return grpc.insecure_channel(target, options=_OPTIONS)
    return grpc.secure_channel(target, credentials, options=_OPTIONS)


def _credentials(address: str, host: str, keys: Keys) -> grpc.ChannelCredentials | None:
    """The credentials of a channel, ``None`` for none."""
    context = tls_context(address, host, keys)  # checks the files too, which an error of gRPC does not name
    if keys == Keys():
        return None
    credentials = grpc.local_channel_credentials() if context is None else _tls(keys)
    if keys.token is None:
        return credentials
    token = grpc.access_token_call_credentials(keys.token)
    return grpc.composite_channel_credentials(credentials, token)


def _tls(keys: Keys) -> grpc.ChannelCredentials:
    trusted = _system_authorities() if keys.ca_file is None else Path(keys.ca_file).read_bytes()
    if keys.certificate_file is None or keys.key_file is None:
        return grpc.ssl_channel_credentials(trusted)
    key, certificate = Path(keys.key_file).read_bytes(), Path(keys.certificate_file).read_bytes()
    return grpc.ssl_channel_credentials(trusted, key, certificate)


def _system_authorities() -> bytes | None:
    """The certificates that the system, and with it Python, trusts, in PEM; ``None``, for gRPC's, if none.

    OpenSSL reads a file, and a directory of certificates whose names are their hashes.
    """
    paths = ssl.get_default_verify_paths()
    files = [Path(paths.cafile)] if paths.cafile is not None else []
    if paths.capath is not None:
        files += sorted(Path(paths.capath).glob("*.[0-9]"))
    return b"\n".join(file.read_bytes() for file in files if file.is_file()) or None
