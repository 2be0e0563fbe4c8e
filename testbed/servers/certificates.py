"""Certificates made for a test by an authority of its own."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

KEYSTORE_PASSWORD = "of-the-keystore"


@dataclass(frozen=True)
class Certificate:
    """The PEM files of a certificate and its key, the latter in PKCS#8."""

    file: Path
    key: Path


class Authority:
    """Signs certificates; ``file`` is its own."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self.directory = directory
        self.file = directory / f"{name}.pem"
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(self.file)

    def certificate(
        self, name: str, *identities: str, begins: int = -30, days: int = 2, rsa: bool = False
    ) -> Certificate:
        """A certificate for these names or addresses, valid for ``days``; expired if ``days`` is negative.

        It ``begins`` to be valid after this number of days, which may be negative.

        Its key is one of elliptic curves, or of ``rsa``, which Flink's default cipher suites require.
        """
        now = datetime.datetime.now(datetime.UTC)
        made = self._authority.issue_cert(
            *identities,
            not_before=now + datetime.timedelta(days=begins),
            not_after=now + datetime.timedelta(days=days),
            key_type=trustme.KeyType.RSA if rsa else trustme.KeyType.ECDSA,
        )
        paths = Certificate(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        paths.file.write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        paths.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        paths.key.chmod(0o600)
        return paths

    def stores(self, certificate: Certificate) -> tuple[Path, Path]:
        """PKCS#12 files for Java: one of a certificate with its key, one of the trusted authority."""
        key = load_pem_private_key(certificate.key.read_bytes(), None)
        assert isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey)
        own = load_pem_x509_certificate(certificate.file.read_bytes())
        trusted = load_pem_x509_certificate(self.file.read_bytes())
        key_store, trust_store = certificate.file.with_suffix(".p12"), self.file.with_suffix(".p12")
        secret = KEYSTORE_PASSWORD.encode()
        key_store.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"own", key, own, [trusted], BestAvailableEncryption(secret)
            )
        )
        entry = pkcs12.PKCS12Certificate(trusted, b"authority")
        trust_store.write_bytes(pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(secret)))
        return key_store, trust_store
