"""Programs of the user: how they are started as that user, watched and ended."""
