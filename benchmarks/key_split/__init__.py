"""Key splitting: what the partitioners do to the loads of the workers."""
