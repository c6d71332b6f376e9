"""How a coordinator runs a job: its pods, sessions, outputs and readings."""
