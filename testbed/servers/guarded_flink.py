"""A real Flink cluster whose REST interface uses TLS and requires a client certificate."""

from __future__ import annotations

from pathlib import Path

import requests

from binders.common.java import java
from binders.flink.local.cluster import flink_home
from speck.core.inventory import Login
from testbed.servers.certificates import KEYSTORE_PASSWORD, Authority, Certificate
from testbed.servers.flink import FlinkServer


class GuardedFlink(FlinkServer):
    """The cluster; ``client`` is a certificate that it accepts."""

    def __init__(self, directory: Path, authority: Authority, own: Certificate, client: Certificate) -> None:
        java("Flink")
        flink_home()
        key_store, trust_store = authority.stores(own)
        self.authority, self.client = authority, client
        stores = {
            f"security.ssl.rest.{name}": value
            for name, value in {
                "enabled": "true",
                "authentication-enabled": "true",
                "keystore": str(key_store),
                "keystore-password": KEYSTORE_PASSWORD,
                "key-password": KEYSTORE_PASSWORD,
                "truststore": str(trust_store),
                "truststore-password": KEYSTORE_PASSWORD,
            }.items()
        }
        super().__init__(directory, slots=8, conf=stores, talkative=True)

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self.ports[0]}/"

    @property
    def login(self) -> Login:
        """A valid login."""
        return Login(
            ca_file=str(self.authority.file),
            certificate_file=str(self.client.file),
            key_file=str(self.client.key),
        )

    def get(self, path: str) -> requests.Response:
        """Send a GET with the valid certificate."""
        return requests.get(
            f"{self.address}{path}",
            timeout=30,
            verify=str(self.authority.file),
            cert=(str(self.client.file), str(self.client.key)),
        )

    def ready(self) -> bool:
        try:
            return int(self.get("overview").json()["slots-total"]) > 0
        except (requests.RequestException, ValueError, KeyError):
            return False
