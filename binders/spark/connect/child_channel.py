"""The channel of PySpark's own client, in the process that runs a job's code."""

from __future__ import annotations

import grpc  # type: ignore[import-untyped]

from binders.spark.connect.credentials import Keys, channel_credentials

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
    credentials = channel_credentials(f"sc://{target}", host, keys)
    if credentials is None:
        return grpc.insecure_channel(target, options=_OPTIONS)
    return grpc.secure_channel(target, credentials, options=_OPTIONS)
