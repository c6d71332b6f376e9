"""Which job runs next and where; pure, on snapshots of the cluster."""
