"""Rates of Flink jobs, computed from their vertices' metrics."""
