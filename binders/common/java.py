"""Finds the Java program for engines that run on it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from speck.errors import LocalError


def java(engine: str) -> str:
    """The path of the Java program, ``JAVA_HOME`` first.

    Raises :class:`~speck.errors.LocalError`, which names the ``engine`` that needs it.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        program = shutil.which("java", path=str(Path(home) / "bin"))
        if program is None:
            raise LocalError(
                f"JAVA_HOME is {home!r} and has no bin/java (expected the folder of a Java 17 or 21)"
            )
        return program
    program = shutil.which("java")
    if program is None:
        raise LocalError(
            f"Java is not installed: {engine} needs Java 17 or 21 "
            "(for example apt-get install openjdk-17-jre-headless), or JAVA_HOME set to one"
        )
    return program
