"""Micro benchmarks: one module a part, run as ``python -m benchmarks.NAME``."""
