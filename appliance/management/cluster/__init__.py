"""The cluster: systems, nodes, sessions, what is in use and what is free."""
