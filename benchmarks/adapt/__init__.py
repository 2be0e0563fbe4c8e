"""The adaptation loop: in memory by an accelerated clock, and over real engines with the server killed."""
