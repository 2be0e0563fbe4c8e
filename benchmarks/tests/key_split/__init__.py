"""Tests of the benchmarks of key splitting."""
