"""Reference results of key splitting, computed without its operators."""
