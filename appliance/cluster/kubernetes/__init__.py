"""Runs pods as pods of a Kubernetes cluster: objects, watches, the launcher, leader election."""
