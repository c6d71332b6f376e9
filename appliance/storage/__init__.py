"""Durable state in SQL: jobs, workflows, pods, events, leases; SQLite or PostgreSQL."""
