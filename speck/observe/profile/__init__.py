"""From raw counts of jobs to profiles: screening, fits and estimates.  Pure: no clock, no calls."""
