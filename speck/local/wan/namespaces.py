"""Namespaces of a user's own, in which a network can be made without being root."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence

from speck.errors import LocalError

# Within them the process is root; the names of network namespaces lie in /run, which is another one there.
_ENTER = ("unshare", "--user", "--map-root-user", "--net", "--mount")
_PREPARE = "mount -t tmpfs none /run && ip link set lo up"


def in_own_namespaces(
    command: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """The command, and its environment, that runs another one as root of namespaces of its own.

    Raises :class:`~speck.errors.LocalError` where that is not allowed, or a program is missing.
    """
    if missing := [each for each in ("unshare", "ip") if shutil.which(each) is None]:
        raise LocalError(f"a network needs root, or {' and '.join(missing)} (util-linux, iproute2)")
    tried = subprocess.run([*_ENTER, "sh", "-c", _PREPARE], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise LocalError(f"a network needs root, or namespaces of one's own: {tried.stderr.strip()}")
    entered = [*_ENTER, "sh", "-c", f'{_PREPARE} && exec "$@"', "sh", *command]
    return entered, {**environment, "LOGNAME": "root"}
