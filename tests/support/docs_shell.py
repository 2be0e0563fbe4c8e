"""Runs the commands of the documentation as a reader would, and compares their output with the page."""

from __future__ import annotations

import difflib
import getpass
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from speck import local
from speck.local import processes
from testbed import ROOT
from testbed.servers.forked import shell_command
from tests.support.docs_blocks import Block, Step, blocks, steps

MARK = "docs-" + str(os.getpid())  # of all processes that the commands start
_END = "--- end of the command: "
_LIMIT = 300.0  # s for one command, on a machine that does much else
_POLL = 0.05  # s between two looks at a file
_PAUSE = 0.5  # s before a command is typed again, which takes processor time

# The parts of an output that differ between runs: ports, ids, times, users and paths.
_VARYING = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?( ?UTC|Z)?", "TIME"),
        (r"\b\d\d:\d\d:\d\d\b", "TIME"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "ID"),
        (r"\b[0-9a-f]{12,64}\b", "ID"),
        (r"(?<=127\.0\.0\.1:)\d+", "PORT"),
        (r"\b[\w.-]+@[\w.-]+\b", "WHO"),
        (r"(\.{0,2}/)?[\w./-]*/\.speck/", ".speck/"),
        (r"(?<=\s)/[\w./-]*/cold-rooms$", "cold-rooms"),
        (r"\b\d+(\.\d+)?(?= (s|ms|seconds|bytes)\b)", "N"),
        (r"(?<=process )\d+", "PID"),
        (r"\b(running|stopped) +\d+$", r"\1 PID"),
        (r"@[0-9a-f]{6,8}\b", "@ID"),
        # The current activity of a Spark query.
        (r"(Looking for new messages|Waiting for [\w ]+|Processing new data|No new data[\w ]*)$", "-"),
        (r"[─━═]+", "-"),
        (r"\s{2,}", " "),
    )
)

# A line that depends on how much the server has seen of a job by then.
_SOMETIMES = re.compile(r"messages written since its last state may be delivered twice")


@dataclass
class Reader:
    """A shell that runs the commands of a page in one folder.

    With ``update`` the output is not compared, but collected for :func:`rewrite`.
    """

    folder: Path
    port: int
    update: bool = False
    printed: dict[tuple[Path, int], list[list[str]]] = field(default_factory=dict)
    shell: subprocess.Popen[str] = field(init=False)
    background: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        programs = self.folder.parent / "bin"
        programs.mkdir()
        self.folder.mkdir()
        python, (forked, fork_server) = shlex.quote(sys.executable), shell_command("speck.cli")
        without = f"{fork_server}>&-"  # what runs in the background must not keep it
        _program(programs / "python", f'exec {python} "$@" {without}')
        # The port that the pages speak of may be taken on this machine.
        _program(
            programs / "speck",
            'if [ "$1" = serve ]; then shift\n'
            f'exec {python} -m speck.cli serve --port {self.port} "$@" {without}; fi\n'
            f'exec {shlex.join(forked)} "$@"',
        )
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPECK_")}
        self.shell = subprocess.Popen(
            ["env", "--default-signal=HUP,INT,TERM", "bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            pass_fds=[fork_server],
            env=environment
            | {
                "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "SPECK_URL": f"http://127.0.0.1:{self.port}",
                processes.MARK: MARK,
            },
        )

    def save(self, block: Block) -> None:
        """Save a block under the name in its note."""
        path = self.folder / block.notes["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def type(self, block: Block) -> None:
        """Run the commands of a block; each must succeed, and print the output that the page shows."""
        for step in steps(block):
            code, printed = self._typed(step, block)
            allowed = (0, 2) if _plans(step.command) else (0,)
            output = f"{block}: {step.command}\n{''.join(printed)}"
            assert code in allowed, f"{output}exit code {code}"
            if self.update:
                self.printed.setdefault((block.page, block.line), []).append(
                    [self._presented(each) for each in printed]
                )
            elif step.shown is not None:
                shown = step.shown
                if "figures vary" in block.notes:
                    shown, printed = ([_before_figures(each) for each in lines] for lines in (shown, printed))
                differing = differences(shown, printed, "any order" in block.notes)
                assert not differing, f"{block}: {step.command}\n{differing}"

    def run(self, command: str) -> tuple[int, list[str]]:
        """Run a command that is on no page; its exit code, and the lines that it printed."""
        return self._run(command)

    def printed_of(self, page: Path) -> Mapping[int, list[list[str]]]:
        """The collected output of a page, by the first lines of its blocks."""
        return {line: found for (of, line), found in self.printed.items() if of == page}

    def close(self) -> None:
        """End the shell and all processes that it started."""
        self.shell.kill()
        self.shell.wait()
        assert self.shell.stdin is not None and self.shell.stdout is not None
        self.shell.stdin.close()
        self.shell.stdout.close()
        processes.stop(list(processes.marked({MARK})))
        local.down(self.folder / ".speck" / "local")

    def _typed(self, step: Step, block: Block) -> tuple[int, list[str]]:
        if step.command.endswith("&"):
            return self._background(step)
        code, printed = self._run(step.command)
        end = time.monotonic() + _LIMIT
        while time.monotonic() < end and self._comes_later(step, block, printed):
            time.sleep(_PAUSE)
            code, printed = self._run(step.command)
        return code, printed

    @staticmethod
    def _comes_later(step: Step, block: Block, printed: Sequence[str]) -> bool:
        # An engine that has just started on a busy machine may not answer a plan within its 15 s.
        if _plans(step.command) and any(" is unreachable; " in line for line in printed):
            return True
        return "until shown" in block.notes and bool(differences(step.shown or (), printed, False))

    def _presented(self, line: str) -> str:
        """A line as a page shows it, without the names of this machine."""
        user = f"{getpass.getuser()}@{socket.gethostname()}"
        line = line.replace(f":{self.port}", ":8180").replace(user, "you@pc".ljust(len(user)))
        return line.replace(str(self.folder.resolve()), "/home/you/cold-rooms").rstrip()

    def _run(self, command: str) -> tuple[int, list[str]]:
        assert self.shell.stdin is not None
        self.shell.stdin.write(f"{{ {command}\n}} </dev/null; code=$?; echo; echo '{_END}'$code\n")
        self.shell.stdin.flush()
        printed = list(self._until_end())
        return int(printed.pop()), printed[:-1] if printed and printed[-1] == "\n" else printed

    def _until_end(self) -> Iterator[str]:
        assert self.shell.stdout is not None
        for line in self.shell.stdout:
            if line.startswith(_END):
                yield line.removeprefix(_END)
                return
            yield line
        raise AssertionError("the shell ended")

    def _background(self, step: Step) -> tuple[int, list[str]]:
        """Start a command in the background, and wait until it has printed the output that the page shows."""
        log = self.folder.parent / f"background-{len(self.background)}.log"
        self.background.append(log)
        code, _ = self._run(f"{step.command.rstrip('& ')} >{shlex.quote(str(log))} 2>&1 &")
        end = time.monotonic() + _LIMIT
        while len(printed := _lines(log)) < len(_trimmed(step.shown or ())):
            assert time.monotonic() < end, f"{step.command}: {printed}"
            time.sleep(_POLL)
        return code, printed


def rewrite(page: Path, printed: Mapping[int, list[list[str]]]) -> None:
    """Write the collected output into a page, by the first lines of its blocks."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block in reversed(blocks(page)):
        if block.language == "console" and block.line in printed:
            outputs = iter(printed[block.line])
            commands = [line for line in block.lines if line.startswith("$ ")]
            body = [each for line in commands for each in (line, *filter(str.strip, next(outputs)))]
            lines[block.line : block.line + len(block.lines)] = body
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def differences(shown: Iterable[str], printed: Iterable[str], any_order: bool) -> str:
    """The differences between the output and the page, without the varying parts; empty if there are none."""
    expected, got = (
        [normalized(line) for line in _trimmed(lines) if not _SOMETIMES.search(line)]
        for lines in (shown, printed)
    )
    if any_order:
        expected, got = sorted(expected), sorted(got)
    return "\n".join(difflib.unified_diff(expected, got, "shown", "printed", lineterm="", n=9))


def _before_figures(line: str) -> str:
    """The first two columns of a line, up to its first figure or id; nothing of the reasons below it."""
    if line.startswith(" " * 8):
        return ""
    text = re.split(r"[-+]?\d|\b[0-9a-f]{8}\b|(?<=busiest) ", line, maxsplit=1)[0]
    return "  ".join(re.split(r"\s{2,}", text.strip())[:2])


def normalized(line: str) -> str:
    """A line without the parts that differ between runs."""
    for pattern, name in _VARYING:
        line = pattern.sub(name, line)
    return line.strip()


def _trimmed(lines: Iterable[str]) -> list[str]:
    return [line.rstrip() for line in lines if line.strip()]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _plans(command: str) -> bool:
    """True if a command only plans; its exit code is 2 if there are changes."""
    return command.startswith(("speck plan", "speck place", "speck advise")) or "--dry-run" in command


def _program(path: Path, text: str) -> None:
    # Of sh, some know descriptors of one digit alone.
    path.write_text(f"#!/usr/bin/env bash\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
