"""Carries plans out at engines and brokers: operations, the protocol, attempts, sessions, state."""
