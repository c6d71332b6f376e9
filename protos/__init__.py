"""Interface contracts and their generated stubs."""
