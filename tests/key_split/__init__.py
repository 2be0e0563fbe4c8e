"""Tests of key splitting: the protocol, its frames and its partitioners."""
