"""Tests against a real Kubernetes API server."""
