"""The service that the client calls: its servicers, its streams and its heartbeats."""
