"""The partitioners: rules by which the rows of a keyed aggregation are given to its workers."""
