"""What every pod process does beside its role: registration, heartbeats, orderly end."""
