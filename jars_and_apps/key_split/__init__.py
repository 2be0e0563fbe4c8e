"""Key splitting: one keyed windowed aggregation, split over workers; pure, on numpy and pyarrow alone."""
