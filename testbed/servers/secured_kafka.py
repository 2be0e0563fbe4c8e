"""A real Kafka with ports that ask for TLS, logins and certificates, beside one without for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed.servers.base import free_port
from testbed.servers.certificates import Authority
from testbed.servers.kafka import KafkaServer

USER, PLAIN_USER = "speck", "speck-plain"
_MODULES = "org.apache.kafka.common.security"


class SecuredKafka(KafkaServer):
    """The user ``speck`` may log in by SCRAM, ``speck-plain`` by PLAIN; both with ``password``.

    One port asks for a login, one for a client certificate, and one for both, with SCRAM-SHA-256.
    """

    def __init__(self, directory: Path, password: str) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.secured_port, self._password = free_port(), password
        self._certified_port, self._both_port = free_port(), free_port()
        self.authority = Authority(directory)
        certificate = self.authority.certificate("broker", "127.0.0.1")
        self._key_store = directory / "broker-store.pem"
        self._key_store.write_bytes(certificate.key.read_bytes() + certificate.file.read_bytes())
        self.client = self.authority.certificate("client", "jobs.example")

    @property
    def secured_address(self) -> str:
        """The address with TLS."""
        return f"kafkas://127.0.0.1:{self.secured_port}"

    @property
    def certified_address(self) -> str:
        """The address at which clients are known by their certificates."""
        return f"kafkas://127.0.0.1:{self._certified_port}"

    @property
    def both_address(self) -> str:
        """The address that asks for a certificate and for a login by SCRAM-SHA-256."""
        return f"kafkas://127.0.0.1:{self._both_port}"

    def commands(self) -> Sequence[Sequence[str]]:
        """See :meth:`RealServer.commands`; of two settings in a file of Java's, the last one counts."""
        commands = super().commands()
        plain, controller = (f"127.0.0.1:{port}" for port in self.ports)
        ports = {"SECURED": self.secured_port, "CERTIFIED": self._certified_port, "BOTH": self._both_port}
        named = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        own, both = "listener.name.secured", "listener.name.both"
        settings = {
            "listeners": f"PLAINTEXT://{plain},CONTROLLER://{controller},{named}",
            "advertised.listeners": f"PLAINTEXT://{plain},{named}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL,CERTIFIED:SSL,BOTH:SASL_SSL"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._key_store,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority.file,
            "listener.name.certified.ssl.client.auth": "required",
            f"{both}.ssl.client.auth": "required",
            f"{both}.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            f"{both}.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
            f"{own}.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
            f"{own}.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
            f"{own}.plain.sasl.jaas.config": (
                f'{_MODULES}.plain.PlainLoginModule required user_{PLAIN_USER}="{self._password}";'
            ),
        }
        with (self.directory / "server.properties").open("a", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in settings.items())
        return commands

    def add_user(self) -> None:
        """Make the user that logs in by SCRAM."""
        from kafka.admin import UserScramCredentialUpsertion

        admin = self.admin()
        try:
            for mechanism in ("SCRAM-SHA-512", "SCRAM-SHA-256"):
                made = admin.alter_user_scram_credentials(
                    [UserScramCredentialUpsertion(USER, mechanism, self._password)]
                )
                assert made == {USER: None}, made
        finally:
            admin.close()
