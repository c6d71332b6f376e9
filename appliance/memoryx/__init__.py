"""MemoryX: holds every weight and optimizer tensor, streams weights, runs the updates."""
