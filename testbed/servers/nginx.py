"""A real nginx before a server, with the blocks of the documentation and the ports and files of a test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed import ROOT
from testbed.servers.base import RealServer, accepts, free_port
from testbed.servers.https_proxy import HttpsProxy
from testbed.servers.tls_proxy import certificate
from tests.support.docs_blocks import blocks

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
    """Stand before ``target``, a Flink; parameters as of :func:`testbed.servers.https_proxy.https_proxy`."""
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


class NginxServer(RealServer):
    """An nginx with the block of a page of the documentation, in which ``own`` replaces texts by others."""

    log_name = "error.log"
    start_timeout = 30.0

    def __init__(self, directory: Path, page: str, listens: str, own: Mapping[str, str]) -> None:
        super().__init__(directory)
        self.port = free_port()
        self.signed, key = certificate(directory, "proxy")
        (self._block,) = (each.text for each in blocks(ROOT / "docs" / page) if each.language == "nginx")
        own = {f"listen {listens} ssl": f"listen 127.0.0.1:{self.port} ssl", **own}
        own |= {"/etc/flink/proxy.pem": str(self.signed), "/etc/flink/proxy.key": str(key)}
        own |= {"/etc/speck/cert.pem": str(self.signed), "/etc/speck/key.pem": str(key)}
        for text, replacement in own.items():
            self._block = self._block.replace(text, replacement)
        assert "/etc/" not in self._block

    def commands(self) -> list[list[str]]:
        assert PROGRAM is not None
        directory, configuration = self.directory, self.directory / "nginx.conf"
        places = " ".join(f"{each}_temp_path {directory}/{each};" for each in _PLACES)
        configuration.write_text(_AROUND.format(directory=directory, places=places, block=self._block))
        error_log = str(directory / self.log_name)
        return [[PROGRAM, "-p", str(directory), "-c", str(configuration), "-e", error_log]]

    def ready(self) -> bool:
        """True if the port is open."""
        return accepts(self.port)


@contextmanager
def _nginx(directory: Path, page: str, listens: str, own: Mapping[str, str]) -> Iterator[HttpsProxy]:
    if PROGRAM is None:
        pytest.skip("nginx is not installed (apt-get install nginx)")
    with NginxServer(directory, page, listens, own) as server:
        yield HttpsProxy(f"https://127.0.0.1:{server.port}", server.signed)
