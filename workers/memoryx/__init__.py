"""MemoryX: holds all weights and optimizer state, announces what may be streamed, runs updates."""
