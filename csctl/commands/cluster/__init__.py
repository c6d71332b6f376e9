"""Commands about nodes, systems, sessions and volumes."""
