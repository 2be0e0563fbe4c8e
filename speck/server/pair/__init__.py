"""A pair of servers in a process: the standby until it is the primary, and the witness."""
