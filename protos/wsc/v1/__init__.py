"""Inner interface contracts and their generated stubs."""
