"""One module per group of csctl commands."""
