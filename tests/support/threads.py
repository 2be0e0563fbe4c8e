"""A system that has no thread left."""

from __future__ import annotations

import threading

import pytest


def without_threads(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    """Let no thread start whose name begins with ``prefix``, as where the memory for its stack is missing."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(prefix):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
