"""Who runs next, and on which systems: pure functions from a snapshot of the cluster to decisions."""
