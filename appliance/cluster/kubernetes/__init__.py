"""Pods as a Kubernetes cluster's pods: objects, watches, the launcher, who leads."""
