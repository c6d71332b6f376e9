"""Who is told of what has changed."""
