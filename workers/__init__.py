"""The programs of all pod roles: CS-2, MemoryX, SwarmX, input, driver and SDK."""
