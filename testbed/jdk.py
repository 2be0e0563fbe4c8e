"""The programs of the JDK beside the Java that engines run with."""

from __future__ import annotations

from pathlib import Path

from binders.spark.local.commands import java
from speck.errors import LocalError


def tool(name: str) -> str:
    """The path of a program of the JDK whose Java is used; raises :class:`~speck.errors.LocalError`."""
    program = Path(java()).resolve().with_name(name)
    if not program.exists():
        raise LocalError(f"{program} is missing (expected a whole JDK 17 or newer, not only a JRE)")
    return str(program)
