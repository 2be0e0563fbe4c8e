"""Audits the dependencies: no known vulnerability, and the installed versions are the pinned ones.

Known are the advisories of ``known-vulnerable.txt`` beside this file, everywhere; and those of the service
behind pip-audit, where it responds.  The service counts only after it has reported a version that is known
to be vulnerable: without a connection, pip-audit may pass everything unseen.

    python -m scripts.audit [DIRECTORY]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from xml.etree import ElementTree

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
_PINS = ("constraints.txt", "requirements-pyflink.txt")
_KNOWN = Path(__file__).with_name("known-vulnerable.txt")
_OWN = frozenset(("speck", "pip", "setuptools", "wheel"))  # and what makes an environment
_CANARY = "requests==2.19.0"  # CVE-2018-18074
_SOCKET_TIMEOUT, _SOON, _PATIENCE = "5", 20, 180  # s
_POM = {"m": "http://maven.apache.org/POM/4.0.0"}
_LOOSE = re.compile(r"[\[(,]|SNAPSHOT|LATEST|RELEASE|\$\{")


@dataclass(frozen=True)
class Known:
    """Versions of a package, or of a Maven artifact, that an advisory is about."""

    name: str
    versions: SpecifierSet
    advisory: str


def read_known(path: Path) -> list[Known]:
    """The advisories of a file."""
    lines = (line.partition("#")[0].split() for line in path.read_text(encoding="utf-8").splitlines())
    return [Known(words[0], SpecifierSet(words[1]), words[2]) for words in lines if words]


def read_pins(path: Path, faults: list[str]) -> dict[str, str]:
    """The exact version of each package that a file of requirements names; what is not exact is a fault."""
    pins: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, exact, version = text.partition("==")
        if not exact or not _is_one(text):
            faults.append(f"{path.name}: {text!r} is no exact version (expected NAME==VERSION)")
            continue
        pins[canonicalize_name(name)] = version
    return pins


def read_maven(root: Path, faults: list[str]) -> dict[str, str]:
    """The version of each artifact and plugin that the projects below name; what is not exact is a fault."""
    poms = [each for each in sorted(root.rglob("pom.xml")) if "target" not in each.parts]
    trees = {pom: ElementTree.parse(pom).getroot() for pom in poms}  # noqa: S314 - our own files
    properties = {
        element.tag.rpartition("}")[2]: element.text or ""
        for tree in trees.values()
        for element in tree.findall("m:properties/*", _POM)
    }
    found = {}
    for pom, tree in trees.items():
        own = tree.findtext("m:parent/m:version", tree.findtext("m:version", "", _POM), _POM)
        for name, version in _artifacts(tree, properties | {"project.version": own}):
            if _LOOSE.search(version):
                faults.append(f"{pom.relative_to(root)}: {name} {version!r} is no exact version")
            found[name] = version
    return found


def condemned(pins: Mapping[str, str], known: Iterable[Known]) -> list[str]:
    """The pinned versions that are known to be vulnerable."""
    return [
        f"{each.name} {pins[each.name]} is vulnerable ({each.advisory}: {each.versions})"
        for each in known
        if each.name in pins and each.versions.contains(_version(pins[each.name]), prereleases=True)
    ]


def not_as_pinned(there: Mapping[str, str], pins: Mapping[str, str]) -> list[str]:
    """The installed packages whose version is not the pinned one, or that are not pinned."""
    return [
        f"{name} {version} is installed, and {pins.get(name, 'none')} is pinned in constraints.txt"
        for name, version in sorted(there.items())
        if name not in _OWN and pins.get(name) != version
    ]


@cache
def needed(name: str = "speck") -> dict[str, str]:
    """The installed packages that a package requires, extras included; other tools do not count."""
    there = {canonicalize_name(each.metadata["Name"]): each for each in distributions()}
    found: dict[str, str] = {}
    first = canonicalize_name(name)
    waiting = [(first, extra) for extra in there[first].metadata.get_all("Provides-Extra", [""])]
    seen = set(waiting)
    while waiting:
        package, extra = waiting.pop()
        if package not in there:
            continue  # left out on this system
        found[package] = there[package].version
        for each in _required(there[package], extra):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return found


def _required(package: Distribution, extra: str) -> Iterator[tuple[NormalizedName, str]]:
    """The packages that one needs with one of its extras, each with an extra of its own."""
    for requirement in map(Requirement, package.requires or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            for required in {"", *requirement.extras}:
                yield canonicalize_name(requirement.name), required


class OutOfReach(Exception):
    """The advisory service does not answer, or not as it should."""


def ask_service(requirements: str) -> list[str]:
    """The answer of pip-audit's service for these pins.  Raises :class:`OutOfReach`."""
    if not _asked(_CANARY, _SOON):
        raise OutOfReach(f"it says nothing against {_CANARY}")
    return _asked(requirements, _PATIENCE)


def _asked(requirements: str, patience: float) -> list[str]:
    options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--timeout", _SOCKET_TIMEOUT]
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "requirements.txt"
        file.write_text(requirements, encoding="utf-8")
        command = [sys.executable, "-m", "pip_audit", "-r", str(file), "-f", "json", *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience)
            answer = json.loads(done.stdout)
        except subprocess.TimeoutExpired as error:
            raise OutOfReach(f"it took more than {patience:g} s") from error
        except ValueError as error:
            raise OutOfReach((done.stderr.strip().splitlines() or ["it says nothing"])[-1][:200]) from error
    return [
        f"{each['name']} {each['version']} is vulnerable ({found['id']})"
        for each in answer["dependencies"]
        for found in each.get("vulns", ())
    ]


def audit(root: Path) -> Iterator[str]:
    """Everything that is wrong, offline."""
    faults: list[str] = []
    known = read_known(_KNOWN)
    pinned = {name: read_pins(root / name, faults) for name in _PINS}
    for name, pins in pinned.items():
        faults += [f"{name}: {each}" for each in condemned(pins, known)]
    faults += [f"Maven: {each}" for each in condemned(read_maven(root / "jars_and_apps", faults), known)]
    faults += not_as_pinned(needed(), pinned["constraints.txt"])
    yield from faults


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT, help="what to look at")
    root: Path = parser.parse_args().directory
    faults = list(audit(root))
    try:
        faults += ask_service("".join((root / name).read_text(encoding="utf-8") for name in _PINS[:1]))
    except OutOfReach as error:
        print(
            f"audit: the advisory service was not asked ({error}); scripts/known-vulnerable.txt was",
            file=sys.stderr,
        )
    for fault in faults:
        print(f"audit: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _artifacts(tree: ElementTree.Element, properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for kind in ("dependency", "plugin"):
        for element in tree.iterfind(f".//m:{kind}", _POM):
            group = element.findtext("m:groupId", "org.apache.maven.plugins", _POM)
            name = f"{group}:{element.findtext('m:artifactId', '', _POM)}"
            version = element.findtext("m:version", "", _POM)
            if version:  # the others take it from where it is managed
                yield name, _filled(version, properties)


def _filled(text: str, properties: Mapping[str, str]) -> str:
    return re.sub(r"\$\{([^}]+)}", lambda match: properties.get(match[1], match[0]), text)


def _version(text: str) -> Version:
    """A version as far as its numbers go: Maven's ``4.2.20.Final`` has a word at its end."""
    try:
        return Version(text)
    except InvalidVersion:
        numbers = re.match(r"\d+(\.\d+)*", text)
        return Version(numbers[0] if numbers else "0")


def _is_one(text: str) -> bool:
    try:
        specifiers = list(Requirement(text).specifier)
    except InvalidRequirement:
        return False
    return len(specifiers) == 1 and specifiers[0].operator == "==" and "*" not in specifiers[0].version


if __name__ == "__main__":
    sys.exit(main())
