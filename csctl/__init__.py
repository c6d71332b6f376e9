"""The command line tool over the queue."""
