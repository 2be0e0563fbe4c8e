"""Tests of the wide area rig of the benchmarks."""
