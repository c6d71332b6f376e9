"""Routes about systems, sessions, use, and the stream of changes."""
