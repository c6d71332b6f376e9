"""How a pod serves the client of its job."""
