"""Who runs next, and where: pure functions from a snapshot of the cluster to decisions."""
