"""SwarmX: broadcasts what layer steps load to every CS-2, and adds up the sums that come back."""
