"""The quality of the wide area network that :mod:`speck.local.wan` makes."""
