"""Where pods run: the launcher protocol and its implementations."""
