"""A standby coordinator: a copy of the store at a second server, which takes over when the first one dies.

The *primary* sends each write of its store to the *standby* before it is written, and both keep a *lease* by
asking each other and a *witness*, a process at a third place that stores which of the two is the primary, by
a number that grows with each take-over (the *epoch*).
"""
