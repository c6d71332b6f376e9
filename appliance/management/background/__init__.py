"""Threads beside the reconciler: notifications, log retention, use of the cluster."""
