"""What the unit tests are worth: which of a sample of small defects they notice."""
