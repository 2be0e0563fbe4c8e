"""The REST interface of placements: proposals, policies, profiles, the loop that adapts, and its metrics."""
