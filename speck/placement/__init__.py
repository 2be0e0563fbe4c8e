"""The placement of jobs at sites: the problem, its cost model, and the policies that solve it; pure."""
