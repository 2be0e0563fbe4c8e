"""LevelDB as one process of SpecK uses it: opened, damaged or full, with its errors translated."""
