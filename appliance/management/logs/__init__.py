"""Output of pods: files, followers, exports, retention and traces."""
