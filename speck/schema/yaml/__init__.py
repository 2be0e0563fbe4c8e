"""YAML as text: parsed with lines, its faults in words, its variables replaced."""
