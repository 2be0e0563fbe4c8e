"""Figures of speed, size and memory; each module runs by `python -m benchmarks.NAME`."""

from pathlib import Path

# Micro benchmarks are called by their own names: python -m benchmarks.plan.
__path__.append(str(Path(__file__).parent / "micro"))
