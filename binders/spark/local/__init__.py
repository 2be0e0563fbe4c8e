"""Spark servers on this machine, for ``speck local`` and tests."""
