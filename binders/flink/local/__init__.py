"""A Flink cluster on this machine, for ``speck local`` and tests."""
