"""The service that the client calls: its servicers, its long calls, and how it beats."""
