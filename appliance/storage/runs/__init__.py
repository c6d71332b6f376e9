"""Runs of users, and the sessions of their jobs."""
