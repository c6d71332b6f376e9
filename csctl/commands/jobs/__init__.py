"""Commands about jobs and the queue."""
