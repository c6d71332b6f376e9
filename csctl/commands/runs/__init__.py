"""Commands about runs: scripts with all jobs that they submit."""
