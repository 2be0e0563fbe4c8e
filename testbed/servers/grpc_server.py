"""A gRPC server of this process, instead of Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc  # type: ignore[import-untyped]

_END = 60.0  # s, for the calls under way, which are cancelled


@contextmanager
def grpc_server(*handlers: grpc.GenericRpcHandler) -> Iterator[int]:
    """The loopback port of a server with these handlers, which is gone when the block has ended.

    gRPC would share its port with other servers of its kind (``SO_REUSEPORT``), and let go of it some time
    after a stop: what connects to a new server must not reach one that ends.
    """
    with ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads, handlers, options=[("grpc.so_reuseport", 0)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield port
        finally:
            assert server.stop(0).wait(_END), f"the gRPC server at port {port} does not end"
