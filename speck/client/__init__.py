"""A client of the server's REST interface."""

from __future__ import annotations

from speck.client.client import Client
from speck.client.pair import NoServer
from speck.client.transport import DEFAULT_URL, RequestRefused
from speck.client.versions import explained

__all__ = ["DEFAULT_URL", "Client", "NoServer", "RequestRefused", "explained"]
