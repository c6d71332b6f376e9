"""Management's storage: its database, its instance file, its own process."""
