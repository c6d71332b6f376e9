"""MemoryX: holds every weight and optimizer tensor, says what may be streamed, runs the updates."""
