"""Flink's REST interface: client, validation of its answers, causes in its stack traces."""
