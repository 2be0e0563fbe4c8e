"""Observation of engines and brokers: status, metrics, rates, health checks.  Nothing is changed there."""
