"""Every benchmark, party and bar at a small size."""
