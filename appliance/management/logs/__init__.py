"""What pods print: files, followers, exports, retention and traces."""
