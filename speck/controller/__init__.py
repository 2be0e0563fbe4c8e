"""Keeps jobs as desired: detects drift, gates and retries actions, adopts orphans, reaps what was abandoned."""
