"""A real Mosquitto with a listener for each kind of login, and for invalid certificates."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.servers.base import NotInstalled, free_port
from testbed.servers.certificates import Authority, Certificate
from testbed.servers.mosquitto import PROGRAM, MosquittoServer

USER = "speck"
TOPICS = ("in/#", "searched", "out/#", "speck/#")  # as in docs/secrets.md: of the jobs, and SpecK's own
_PASSWORDS = shutil.which("mosquitto_passwd", path="/usr/bin:/usr/local/bin:/usr/sbin")


@dataclass(frozen=True)
class GuardedBroker:
    """``address`` needs no login; ``password`` a password over TLS, ``certificate`` a certificate.

    ``expired`` and ``elsewhere`` are listeners whose own certificate has expired, or names another host.
    The password is valid for :data:`TOPICS` only.
    ``narrow`` needs it too, and refuses SpecK's own topics.
    ``authority`` signed all certificates but that of ``stranger``; ``client`` is valid, ``late`` has expired.
    """

    server: MosquittoServer
    authority: Authority
    client: Certificate
    late: Certificate
    stranger: Certificate
    password: str
    certificate: str
    expired: str
    elsewhere: str
    narrow: str

    @property
    def address(self) -> str:
        """The listener without a login."""
        return self.server.address


@contextmanager
def guarded_broker(directory: Path, password: str) -> Iterator[GuardedBroker]:
    """Run one until the block ends; its only user is :data:`USER`, with this password."""
    if PROGRAM is None or _PASSWORDS is None:
        raise NotInstalled("mosquitto is not installed (apt-get install mosquitto)")
    authority, other = Authority(directory), Authority(directory, "other")
    good = authority.certificate("broker", "127.0.0.1", "localhost")
    expired = authority.certificate("broker-expired", "127.0.0.1", days=-1)
    elsewhere = authority.certificate("broker-elsewhere", "broker.example.org")
    passwords = directory / "passwords"
    subprocess.run([_PASSWORDS, "-b", "-c", str(passwords), USER, password], check=True)
    (access := directory / "access").write_text(f"user {USER}\n" + "".join(map(_allowed, TOPICS)))
    (narrow := directory / "narrow").write_text(f"user {USER}\n{_allowed('in/#')}")
    ports = [free_port() for _ in range(6)]
    settings = [
        "per_listener_settings true",
        *_listener(ports[0], "allow_anonymous true"),
        *_listener(
            ports[1],
            *("allow_anonymous false", f"password_file {passwords}", f"acl_file {access}"),
            *_tls(good),
        ),
        *_listener(
            ports[2],
            *("allow_anonymous true", "require_certificate true", f"cafile {authority.file}"),
            *_tls(good),
        ),
        *_listener(ports[3], "allow_anonymous true", *_tls(expired)),
        *_listener(ports[4], "allow_anonymous true", *_tls(elsewhere)),
        *_listener(
            ports[5],
            *("allow_anonymous false", f"password_file {passwords}", f"acl_file {narrow}"),
            *_tls(good),
        ),
    ]
    with MosquittoServer(directory / "mosquitto", "\n".join(settings), port=ports[0]) as server:
        yield GuardedBroker(
            server,
            authority,
            authority.certificate("client", "speck@example.org"),
            authority.certificate("client-late", "speck@example.org", days=-1),
            other.certificate("stranger", "speck@example.org"),
            *(f"mqtts://127.0.0.1:{port}" for port in ports[1:]),
        )


def _allowed(topic: str) -> str:
    return f"topic readwrite {topic}\n"


def _listener(port: int, *settings: str) -> list[str]:
    return [f"listener {port} 127.0.0.1", *settings]


def _tls(certificate: Certificate) -> list[str]:
    return [f"certfile {certificate.file}", f"keyfile {certificate.key}"]
