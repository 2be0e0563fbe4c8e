"""Keeps jobs as desired: drift, gated actions, back-off, orphans, and the reaper of abandoned work."""
