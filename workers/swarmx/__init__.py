"""SwarmX: broadcasts what layer steps load to every CS-2 and adds up what the CS-2s send back."""
