"""Tests of the benchmarks in a wide area network."""
