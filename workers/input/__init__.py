"""Input pods: the user's dataloader in its own process, and each system's share of every batch."""
