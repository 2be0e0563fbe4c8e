"""Engines, brokers, stores and servers in memory, and samples of their records."""
