"""Training of the policies of saspartitioner: data, the simulator, the networks, and the two algorithms."""
