"""``speck`` as a process of its own that logs all there is to log, of all its libraries."""

from __future__ import annotations

import logging

from speck.cli import main

if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG)
    logging.getLogger().setLevel(logging.DEBUG)
    main()
