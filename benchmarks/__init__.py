"""Figures of speed, size and memory; each module runs by `python -m benchmarks.NAME`."""
