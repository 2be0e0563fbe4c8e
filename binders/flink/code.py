"""What is wrong with a Flink job's file, told without running it."""

from __future__ import annotations

import difflib
import zipfile
from pathlib import Path

SUFFIX = ".jar"


def check_code(path: Path, entry_class: str) -> str | None:
    """Say in a sentence why a jar holds no such class, or ``None`` when it does.

    ``entry_class`` is a class as Java names it: dots between packages, ``$`` before a nested class.
    """
    if path.suffix.lower() != SUFFIX:
        return f"job_path {path.name!r} is no Flink job (expected a .jar file)"
    if not all(part.isidentifier() for part in entry_class.replace("$", ".").split(".")):
        return f"entry_class {entry_class!r} is no class name (expected for example streets.Clean)"
    try:
        with zipfile.ZipFile(path) as jar:
            names = {_class_of(member) for member in jar.namelist() if member.endswith(".class")}
    except (OSError, zipfile.BadZipFile) as error:
        return f"job_path {str(path)!r} cannot be read as a jar: {error}"
    if entry_class in names:
        return None
    return f"{path.name!r} holds no class {entry_class!r}{_near(entry_class, names)}"


def _class_of(member: str) -> str:
    return member.removesuffix(".class").replace("/", ".")


def _near(wanted: str, names: set[str]) -> str:
    nested = [name for name in names if name.replace("$", ".") == wanted]
    if nested:
        return f" (expected {nested[0]!r}: a nested class is written with $)"
    same = sorted(name for name in names if name.rpartition(".")[2] == wanted.rpartition(".")[2])
    candidates = sorted(name for name in names if "$" not in name)
    near = same[:3] or difflib.get_close_matches(wanted, candidates, n=3) or candidates[:5]
    return f" (it has {', '.join(near)})" if near else " (it has no classes)"
