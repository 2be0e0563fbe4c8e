"""A real nginx before a server, of a configuration in which its ports and files replace those written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from testbed.servers.base import NotInstalled, RealServer, accepts, free_port
from testbed.servers.https_proxy import HttpsProxy
from testbed.servers.tls_proxy import certificate

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
    block: str, directory: Path, target: str, username: str, password: str
) -> Iterator[HttpsProxy]:
    """Stand before ``target``, a Flink, with the block that docs/flink.md shows."""
    hashed = subprocess.run(["openssl", "passwd", "-6", password], check=True, capture_output=True, text=True)
    (directory / "users").write_text(f"{username}:{hashed.stdout}")
    own = {"http://127.0.0.1:8081": target.rstrip("/"), "/etc/flink/users": str(directory / "users")}
    with _nginx(directory, block, "8443", own) as proxy:
        yield proxy


@contextmanager
def nginx_before_speck(block: str, directory: Path, target: str) -> Iterator[HttpsProxy]:
    """Stand before ``target``, a server of SpecK, with the block that docs/security.md shows."""
    with _nginx(directory, block, "443", {"http://127.0.0.1:8180": target}) as proxy:
        yield proxy


class NginxServer(RealServer):
    """An nginx with this block of configuration, in which ``own`` replaces texts by others."""

    log_name = "error.log"
    start_timeout = 30.0

    def __init__(self, directory: Path, block: str, listens: str, own: Mapping[str, str]) -> None:
        super().__init__(directory)
        self.port = free_port()
        self.signed, key = certificate(directory, "proxy")
        own = {f"listen {listens} ssl": f"listen 127.0.0.1:{self.port} ssl", **own}
        own |= {"/etc/flink/proxy.pem": str(self.signed), "/etc/flink/proxy.key": str(key)}
        own |= {"/etc/speck/cert.pem": str(self.signed), "/etc/speck/key.pem": str(key)}
        for text, replacement in own.items():
            block = block.replace(text, replacement)
        assert "/etc/" not in block
        self._block = block

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
def _nginx(directory: Path, block: str, listens: str, own: Mapping[str, str]) -> Iterator[HttpsProxy]:
    if PROGRAM is None:
        raise NotInstalled("nginx is not installed (apt-get install nginx)")
    with NginxServer(directory, block, listens, own) as server:
        yield HttpsProxy(f"https://127.0.0.1:{server.port}", server.signed)
