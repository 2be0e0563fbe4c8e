"""A real Kafka with a port that asks for TLS and a login, beside one without for the tests themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed.servers.base import free_port
from testbed.servers.certificates import Authority
from testbed.servers.kafka import KafkaServer

USER, PLAIN_USER = "speck", "speck-plain"
_MODULES = "org.apache.kafka.common.security"


class SecuredKafka(KafkaServer):
    """The user ``speck`` may log in by SCRAM, ``speck-plain`` by PLAIN; both with ``password``."""

    def __init__(self, directory: Path, password: str) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.secured_port, self._password = free_port(), password
        self.authority = Authority(directory)
        certificate = self.authority.certificate("broker", "127.0.0.1")
        self._key_store = directory / "broker-store.pem"
        self._key_store.write_bytes(certificate.key.read_bytes() + certificate.file.read_bytes())

    @property
    def secured_address(self) -> str:
        """The address with TLS."""
        return f"kafkas://127.0.0.1:{self.secured_port}"

    def commands(self) -> Sequence[Sequence[str]]:
        """See :meth:`RealServer.commands`; of two settings in a file of Java's, the last one counts."""
        commands = super().commands()
        plain, controller = (f"127.0.0.1:{port}" for port in self.ports)
        secured = f"SECURED://127.0.0.1:{self.secured_port}"
        own = "listener.name.secured"
        settings = {
            "listeners": f"PLAINTEXT://{plain},CONTROLLER://{controller},{secured}",
            "advertised.listeners": f"PLAINTEXT://{plain},{secured}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
            f"{own}.ssl.keystore.type": "PEM",
            f"{own}.ssl.keystore.location": self._key_store,
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
            made = admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion(USER, "SCRAM-SHA-512", self._password)]
            )
            assert made == {USER: None}, made
        finally:
            admin.close()
