"""Which pods a job consists of, and how management reaches its coordinator."""
