"""Benchmarks of workers that come and go: how full they are, how many, and how soon an idle one is gone."""
