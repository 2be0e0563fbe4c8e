"""Sites for jobs: placement, its figures, and the pools of engines."""
