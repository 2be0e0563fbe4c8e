"""Tests of the figures of fog and cloud."""
