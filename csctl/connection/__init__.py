"""The configuration file, who calls, and the connection to management."""
