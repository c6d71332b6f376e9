"""What host programs import: the runtime, its arrays and tasks, and inspection after a run."""
