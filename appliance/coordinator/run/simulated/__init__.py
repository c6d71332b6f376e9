"""What the timing model says of the program that a session runs."""
