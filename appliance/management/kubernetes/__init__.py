"""Synchronises the objects of a Kubernetes cluster with jobs."""
