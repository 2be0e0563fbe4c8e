"""Carries a plan out at engines and brokers: operations, the apply protocol, attempts, sessions, state transfer."""
