"""``python -m speck.cli``."""

from speck.cli import main

main()
