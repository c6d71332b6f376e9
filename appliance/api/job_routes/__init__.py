"""Routes about jobs, the queue and what jobs leave behind."""
