"""Threads beside the reconciler: notifications, retention of logs, accounts of use."""
