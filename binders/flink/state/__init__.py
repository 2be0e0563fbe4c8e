"""Savepoints and checkpoints: where they are, and how a job is stopped with one."""
