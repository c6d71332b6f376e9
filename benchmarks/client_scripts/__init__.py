"""Programs that run in the real client's environment; see `make client`."""
