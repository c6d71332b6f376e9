"""SwarmX: broadcasts weights to all systems and adds up what they send back."""
