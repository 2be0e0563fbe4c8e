"""The commands about splits by keys, and the advice that one of them gives."""

from __future__ import annotations

from speck.cli.split.commands import split

__all__ = ["split"]
