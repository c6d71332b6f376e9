"""The parts of a cluster and its jobs: values shared by all programs."""
