"""Where jobs should run: the placement problem, its cost model, and the policies that solve it; pure."""
