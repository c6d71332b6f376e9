"""Streams between nodes: rings and stores over TCP, ended in shared memory on either side."""
