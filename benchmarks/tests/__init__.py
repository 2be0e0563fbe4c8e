"""Tests of the code of the benchmarks."""
