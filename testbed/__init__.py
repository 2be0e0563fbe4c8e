"""Real servers, doubles, rigs and faults, which tests and benchmarks share."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
