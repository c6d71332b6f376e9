"""Systems, sessions, and what happened to them."""
