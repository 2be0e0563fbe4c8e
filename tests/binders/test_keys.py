"""Certificates and keys in the forms that openssl writes: taken, or refused with the file and the reason."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from binders.flink.rest.connections import Connections
from binders.mqtt.address import BrokerAddress
from binders.mqtt.tls import client_context
from binders.spark.connect.credentials import Keys, tls_context
from speck.core.inventory import Login
from speck.errors import SpeckError
from speck.server.tls import Certificate

# Called with a certificate and its key.
USERS: dict[str, Callable[[str, str], object]] = {
    "server": lambda certificate, key: Certificate(Path(certificate), Path(key)),
    "Flink": lambda certificate, key: Connections(
        "https://127.0.0.1:1/", Login(certificate_file=certificate, key_file=key)
    )._opened(),
    "Spark Connect": lambda certificate, key: tls_context(
        "sc://h", "h", Keys(certificate_file=certificate, key_file=key)
    ),
    "broker": lambda certificate, key: client_context(
        BrokerAddress.parse("mqtts://h"), Login(certificate_file=certificate, key_file=key)
    ),
}

GOOD = {
    "PKCS#8": ("cert.pem", "key.pem"),
    "PKCS#1": ("cert.pem", "pkcs1.pem"),
    "EC, with its parameters": ("ec-cert.pem", "ec.pem"),
    "both in one file": ("both.pem", "both.pem"),
    "CRLF": ("crlf-cert.pem", "crlf-key.pem"),
    "a byte order mark": ("bom-cert.pem", "bom-key.pem"),
    "with a description": ("described.pem", "key.pem"),
}
# With the file that is at fault, and the reason that all users but the broker give.
BAD = {
    "PKCS#8, encrypted": ("cert.pem", "encrypted8.pem", "encrypted8.pem", "is encrypted"),
    "PKCS#1, encrypted": ("cert.pem", "encrypted1.pem", "encrypted1.pem", "is encrypted"),
    "a key in DER": ("cert.pem", "key.der", "key.der", "is not PEM"),
    "PKCS#12": ("cert.pem", "all.p12", "all.p12", "is not PEM"),
    "no key": ("cert.pem", "cert.pem", "cert.pem", "contains no private key"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("keys")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    new = ("req", "-x509", "-days", "30", "-subj", "/CN=h")
    openssl(*new, "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem")
    openssl("rsa", "-in", "key.pem", "-traditional", "-out", "pkcs1.pem")
    openssl(
        "rsa", "-in", "key.pem", "-traditional", "-aes256", "-passout", "pass:x", "-out", "encrypted1.pem"
    )
    openssl("pkcs8", "-topk8", "-in", "key.pem", "-passout", "pass:x", "-out", "encrypted8.pem")
    openssl("rsa", "-in", "key.pem", "-outform", "DER", "-out", "key.der")
    exported = ("-in", "cert.pem", "-inkey", "key.pem", "-passout", "pass:x", "-out", "all.p12")
    openssl("pkcs12", "-export", *exported)
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-out", "ec.pem")
    openssl(*new, "-key", "ec.pem", "-out", "ec-cert.pem")
    openssl("x509", "-in", "cert.pem", "-text", "-out", "described.pem")
    for kind in ("cert", "key"):
        content = (directory / f"{kind}.pem").read_bytes()
        (directory / f"crlf-{kind}.pem").write_bytes(content.replace(b"\n", b"\r\n"))
        (directory / f"bom-{kind}.pem").write_bytes(b"\xef\xbb\xbf" + content)
    (directory / "both.pem").write_bytes(
        (directory / "key.pem").read_bytes() + (directory / "cert.pem").read_bytes()
    )
    for path in directory.iterdir():
        path.chmod(0o600)
    return directory


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("form", GOOD)
def test_forms_that_are_taken(files: Path, form: str, user: str) -> None:
    certificate, key = GOOD[form]
    USERS[user](str(files / certificate), str(files / key))


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("form", BAD)
def test_forms_that_are_refused(files: Path, form: str, user: str) -> None:
    certificate, key, at_fault, reason = BAD[form]
    with pytest.raises(SpeckError) as caught:
        USERS[user](str(files / certificate), str(files / key))
    assert at_fault in str(caught.value)
    if user != "broker":  # it says what is expected of both
        assert reason in str(caught.value)
    assert "(expected" in str(caught.value)
    assert "\n" not in str(caught.value)
