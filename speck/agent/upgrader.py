"""Another version of the agent: installed by the site's own program, checked, and started in its place.

The coordinator sends the version alone.  The program's path is in the site's file, and what is run is neither
chosen nor sent by the coordinator.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import speck
from speck.agent.site_file import NAME, read_site_file
from speck.errors import BinderError, InvalidInput, Rejected
from speck.link.codec import Malformed
from speck.link.upgrade import CHECK, PROGRAM, VERSION, Upgradability

_LINE = 300  # characters of a program's last line

# The environment of the agent may have the logins of the site.
_PASSED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass
class Upgrader:
    """Safe to use from several threads.  ``end`` closes the connection, which ends the agent's run."""

    directory: Path
    end: Callable[[], object]
    version: str = speck.__version__
    is_installed: bool = field(default=False, init=False)  # another version, which is to be started
    _target: str = field(default="", init=False)
    _failure: str = field(default="", init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def upgradable(self) -> Upgradability:
        """The fault of the program in the site's file, if any, and the outcome of its last run."""
        return Upgradability(fault=self._program()[1], target=self._target, failure=self._failure)

    def upgrade(self, version: str) -> None:
        """Install a version; :meth:`note_answered` starts it.

        Raises :class:`~speck.errors.Rejected` if nothing was begun, and :class:`~speck.errors.BinderError` if
        it failed: this version runs on then.
        """
        if not VERSION.fullmatch(version):
            raise Malformed(f"version is {version[:60]!r} (expected one such as 1.2.3)")
        with self._alone(version):
            program, fault = self._program()
            if fault:
                raise Rejected(fault)
            if version == self.version:
                return
            self._failure = self._install(program, version)
            if self._failure:
                raise BinderError(self._failure)
            self.is_installed = True

    def note_answered(self) -> None:
        """End this process for the other version, if one was installed."""
        if self.is_installed:
            self.end()

    @contextmanager
    def _alone(self, version: str) -> Iterator[None]:
        with self._lock:
            if self._target:
                raise Rejected(f"the agent is being upgraded to {self._target} already")
            self._target, self._failure = version, ""
        try:
            yield
        finally:
            if not self.is_installed:
                self._target = ""

    def _program(self) -> tuple[str, str]:
        """The path of the program, read again each time, and the fault of it or an empty text."""
        file = self.directory / NAME
        try:
            path = read_site_file(self.directory).upgrade
        except InvalidInput as error:
            return "", str(error)
        if path is None:
            return "", f'{file} names no program (write there: "upgrade": "/etc/speck/upgrade-agent")'
        if not Path(path).is_file() or not os.access(path, os.X_OK):
            return "", f"upgrade {path!r} in {file} is not an executable file"
        return path, ""

    def _install(self, program: str, version: str) -> str:
        """Install and check a version; returns the fault, or an empty text.

        After a fault, the version that runs is put back if it is not the installed one any more.
        """
        fault = self._run_program(program, version) or self._checked(version)
        if not fault or not self._checked(self.version):
            return fault
        back = self._run_program(program, self.version) or self._checked(self.version)
        return f"{fault}; " + (
            f"putting {self.version} back failed: {back}" if back else f"{self.version} is back"
        )

    def _run_program(self, program: str, version: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name.upper() in _PASSED}
        environment |= {"SPECK_VERSION": version, "SPECK_PYTHON": sys.executable}
        code, last = _run([program], PROGRAM, environment)
        return f"{program}, for version {version}, {_ended(code, PROGRAM)}{last}" if code != 0 else ""

    def _checked(self, version: str) -> str:
        """The fault of what is installed, or an empty text if that is the agent of this version."""
        command = [sys.executable, "-m", "speck.agent", "--check", str(self.directory)]
        code, last = _run(command, CHECK, os.environ)
        if code != 0:
            return f"the installed agent does not start: its check {_ended(code, CHECK)}{last}"
        found = last.removeprefix(": ")
        return "" if found == version else f"version {found} is installed (expected {version})"


def _ended(code: int | None, seconds: float) -> str:
    return f"has not ended within {seconds:g} s" if code is None else f"ended with exit code {code}"


def _run(command: Sequence[str], seconds: float, environment: Mapping[str, str]) -> tuple[int | None, str]:
    """The exit code of a command, ``None`` after ``seconds``, and its last line after a colon, if any."""
    import subprocess  # of an agent that is upgraded alone

    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            return 126, f": {error.strerror}"
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return code, _last_line(output)


def _last_line(output: IO[bytes]) -> str:
    output.seek(0, os.SEEK_END)
    output.seek(max(0, output.tell() - 4 * _LINE))
    lines = [line.strip() for line in output.read().decode(errors="replace").splitlines() if line.strip()]
    last = "".join(each if each.isprintable() else "?" for each in lines[-1][-_LINE:]) if lines else ""
    return f": {last}" if last else ""
