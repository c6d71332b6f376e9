"""What layer steps are sent of the values that they load: how many bytes, and how often."""
