"""What management keeps: its database, its instance file, its own process."""
