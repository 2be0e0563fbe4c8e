"""Lists the packages that SpecK needs and their wheels for 64-bit ARM (Raspberry Pi OS, Debian), in Markdown.

``.venv/bin/python scripts/arm64_wheels.py [--python 3.11]`` asks the package index that pip is set up for,
by pip itself.  The versions are those of constraints.txt.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
# From manylinux2014 to the C library of Debian 12, as pip itself would take them there.
_LIBRARIES = (17, 24, 26, 27, 28, 31, 34, 35, 36)
_MISSING = re.compile(r"No matching distribution found for ([\w.-]+)|Cannot install ([\w.-]+)")


def needed(package: str = "speck", extras: Iterable[str] = ("spark",)) -> set[str]:
    """The names of all packages that one needs with these extras, those they need included."""
    found: set[str] = set()
    waiting = [(package, frozenset(extras))]
    while waiting:
        name, extras = waiting.pop()
        for text in importlib.metadata.requires(name) or ():
            requirement = Requirement(text)
            chosen = [{"extra": each} for each in extras or ("",)]
            if requirement.marker and not any(map(requirement.marker.evaluate, chosen)):
                continue
            each = canonicalize_name(requirement.name)
            if each not in found:
                found.add(each)
                waiting.append((each, frozenset(requirement.extras)))
    return found


def pinned() -> dict[str, str]:
    """Versions by name, of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {canonicalize_name(name): version for name, version in pairs}


def wheels(names: set[str], versions: dict[str, str], python: str) -> dict[str, str | None]:
    """The file that pip would take for each; None where there is no wheel."""
    remaining, found = set(names), dict[str, str | None]()
    while remaining:
        missing, files = _asked([f"{name}=={versions[name]}" for name in sorted(remaining)], python)
        if missing is None:
            return found | files
        found[canonicalize_name(missing)] = None
        remaining.remove(canonicalize_name(missing))
    return found


def _asked(requirements: list[str], python: str) -> tuple[str | None, dict[str, str | None]]:
    platforms = ["--platform=manylinux2014_aarch64"]
    platforms += [f"--platform=manylinux_2_{minor}_aarch64" for minor in _LIBRARIES]
    with tempfile.TemporaryDirectory() as target:
        report = Path(target) / "report.json"
        command = [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--dry-run"),
            *("--ignore-installed", "--no-deps", "--only-binary=:all:", "--implementation=cp"),
            *(f"--python-version={python}", f"--target={target}", f"--report={report}", *platforms),
            *requirements,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            match = _MISSING.search(done.stderr)
            if match is None:
                raise SystemExit(done.stderr)
            return (match[1] or match[2]), {}
        installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    files: dict[str, str | None] = {
        canonicalize_name(each["metadata"]["name"]): each["download_info"]["url"].rsplit("/", 1)[-1]
        for each in installed
    }
    return None, files


def main() -> None:
    """Print the table: packages of compiled code one by one, the others in one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", default="3.11", help="Python's version there [default: 3.11]")
    python = parser.parse_args().python
    versions = pinned()
    found = wheels(needed() & versions.keys(), versions, python)
    pure = [name for name, file in found.items() if file and file.endswith("-none-any.whl")]
    print(f"| package | version | wheel for Python {python} |\n| --- | --- | --- |")
    for name in sorted(found.keys() - set(pure)):
        file = found[name]
        tags = file.removesuffix(".whl").split("-", 2)[-1] if file else None
        print(f"| {name} | {versions[name]} | {f'`{tags}`' if tags else '**none**: built from source'} |")
    print(f"| {len(pure)} others | | Python alone: any machine |")


if __name__ == "__main__":
    main()
