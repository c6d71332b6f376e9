"""The side of management that keeps a Kubernetes cluster's objects in step with jobs."""
