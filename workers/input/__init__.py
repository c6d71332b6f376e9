"""Input workers: the user's dataloader, and the batch shards for each system."""
