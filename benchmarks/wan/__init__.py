"""A wide area network on one machine, to measure placements in."""
