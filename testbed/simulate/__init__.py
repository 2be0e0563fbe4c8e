"""Two simulators of placed compositions: in continuous flows, and message by message."""
