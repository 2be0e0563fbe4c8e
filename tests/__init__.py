"""Tests, against real engines and brokers wherever one is involved."""
