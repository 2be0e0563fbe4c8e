"""Measurements of a network of given quality, from within its sites."""
