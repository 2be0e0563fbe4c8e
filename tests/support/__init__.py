"""Fixtures and checks of the tests alone; what benchmarks share with them is in :mod:`testbed`."""
