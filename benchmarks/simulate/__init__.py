"""Agreement of the simulators, and the loop that adapts placements, run in them; no part of the product."""
