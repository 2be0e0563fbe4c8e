"""Rates of Flink jobs out of their vertices' metrics."""
