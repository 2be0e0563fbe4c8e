"""YAML and JSON as text: parsed with line numbers, faults explained, variables expanded."""
