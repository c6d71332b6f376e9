"""Requests about jobs: submission, edits, views of the queue, detached runs."""
