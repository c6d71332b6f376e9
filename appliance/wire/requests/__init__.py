"""What clients ask for when they submit, as our own values."""
