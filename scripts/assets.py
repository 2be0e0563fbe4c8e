"""Fetches the libraries of the dashboard and the map, at the versions that are pinned: ``make assets``.

``libraries.json`` in each folder of :data:`VENDORS` pins each package by version and by the integrity of its
archive (sha512, as in npm's lock files).  ``npm pack`` fetches the archive, and one with another integrity is
refused.
To upgrade, write the new version there, run this, verify the integrity that it prints, and enter that too.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENDORS = [
    ROOT / folder / "assets" / "vendor"
    for folder in ("speck/server/dashboard", "jars_and_apps/geofencing/page")
]


def fetch(library: dict[str, object], directory: Path) -> tarfile.TarFile:
    """The archive of a package, held against its pin."""
    name = f"{library['package']}@{library['version']}"
    command = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(directory), name]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    archive = directory / said.split()[-1]
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != library["integrity"]:
        sys.exit(f"{name}: the archive has integrity {found}, and {library['integrity']} is pinned")
    return tarfile.open(archive)


def take(archive: tarfile.TarFile, source: str, target: Path, replaced: dict[str, str]) -> None:
    """Copy a file out of an archive; a browser finds no package by name, so imports become paths."""
    member = archive.extractfile(f"package/{source}")
    assert member is not None, source  # noqa: S101 - a pinned archive
    lines = member.read().decode().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("//# sourceMappingURL")) + "\n"
    for old, new in replaced.items():
        text = text.replace(old, new)
    target.write_text(text)


def main() -> None:
    """Fetch them all."""
    for vendor in VENDORS:
        pins = json.loads((vendor / "libraries.json").read_text())
        with tempfile.TemporaryDirectory() as scratch:
            for library in pins["libraries"]:
                with fetch(library, Path(scratch)) as archive:
                    for source, target in library["files"].items():
                        take(archive, source, vendor / target, library.get("replaced", {}))
                print(f"{library['package']} {library['version']}")


if __name__ == "__main__":
    main()
