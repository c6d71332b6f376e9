"""Input pods: run the user's dataloader in its own process, and cut batches into shares."""
