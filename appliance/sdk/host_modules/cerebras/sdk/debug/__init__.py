"""Looking at what a run has left in memory."""
