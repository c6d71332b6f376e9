"""Builtins for what a PE has on the fabric: colors, queues, tasks and their ids."""
