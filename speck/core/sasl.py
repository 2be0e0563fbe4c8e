"""The mechanisms of SASL by which a login to a broker may authenticate."""

from __future__ import annotations

from collections.abc import Mapping

# The protocol's names (RFC 5802, RFC 7677, RFC 4616) by those of the inventory.
MECHANISMS: Mapping[str, str] = {
    "scram-sha-512": "SCRAM-SHA-512",
    "scram-sha-256": "SCRAM-SHA-256",
    "plain": "PLAIN",
}
DEFAULT_SASL = "scram-sha-512"
