"""From the client's program text to a plan."""
