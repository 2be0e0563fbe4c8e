"""A real nginx before a server, as the documentation says how: its blocks, with ports and files of a test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.docs_blocks import ROOT, blocks
from tests.support.https_proxy import HttpsProxy
from tests.support.mosquitto_server import free_port
from tests.support.tls_proxy import certificate

PROGRAM = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))

_AROUND = """\
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{}}
http {{
    access_log off;
    {places}
{block}
}}
"""
_PLACES = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@contextmanager
def nginx_before_flink(
    directory: Path, target: str, username: str, password: str, trusted: None = None, shown: None = None
) -> Iterator[HttpsProxy]:
    """Stand before ``target``, a Flink; parameters as of :func:`tests.support.https_proxy.https_proxy`."""
    assert (trusted, shown) == (None, None)
    hashed = subprocess.run(["openssl", "passwd", "-6", password], check=True, capture_output=True, text=True)
    (directory / "users").write_text(f"{username}:{hashed.stdout}")
    own = {"http://127.0.0.1:8081": target.rstrip("/"), "/etc/flink/users": str(directory / "users")}
    with _nginx(directory, "flink.md", "8443", own) as proxy:
        yield proxy


@contextmanager
def nginx_before_speck(directory: Path, target: str) -> Iterator[HttpsProxy]:
    """Stand before ``target``, a server of SpecK."""
    with _nginx(directory, "security.md", "443", {"http://127.0.0.1:8180": target}) as proxy:
        yield proxy


@contextmanager
def _nginx(directory: Path, page: str, listens: str, own: Mapping[str, str]) -> Iterator[HttpsProxy]:
    """Run one with the block of a page of the docs; what stands for the test's ``own`` there is replaced."""
    if PROGRAM is None:
        pytest.skip("nginx is not installed (apt-get install nginx)")
    signed, key = certificate(directory, "proxy")
    port = free_port()
    (block,) = (each.text for each in blocks(ROOT / "docs" / page) if each.language == "nginx")
    own = {f"listen {listens} ssl": f"listen 127.0.0.1:{port} ssl", **own}
    own |= {"/etc/flink/proxy.pem": str(signed), "/etc/flink/proxy.key": str(key)}
    own |= {"/etc/speck/cert.pem": str(signed), "/etc/speck/key.pem": str(key)}
    for written, meant in own.items():
        block = block.replace(written, meant)
    assert "/etc/" not in block
    places = " ".join(f"{each}_temp_path {directory}/{each};" for each in _PLACES)
    configuration = directory / "nginx.conf"
    configuration.write_text(_AROUND.format(directory=directory, places=places, block=block))
    command = [PROGRAM, "-p", str(directory), "-c", str(configuration), "-e", str(directory / "error.log")]
    process = subprocess.Popen(command)
    try:
        _await(process, port, directory / "error.log")
        yield HttpsProxy(f"https://127.0.0.1:{port}", signed)
    finally:
        process.terminate()
        process.wait(30)


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(log.read_text())
