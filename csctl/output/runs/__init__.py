"""Sessions of jobs, and how far they are."""
