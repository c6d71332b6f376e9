"""Programs that an SDK job's pod starts as the job's user, and their messages."""
