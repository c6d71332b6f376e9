"""The configuration file, the caller's identity, and the connection to management."""
