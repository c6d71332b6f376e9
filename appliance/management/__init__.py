"""The services at the cluster's door: queue, sessions, job control."""
