"""The REST interface of splits by keys: their jobs, their measured work, and their metrics."""
