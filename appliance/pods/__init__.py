"""What every pod process does beside its role: registration, heartbeats, sessions, orderly end."""
