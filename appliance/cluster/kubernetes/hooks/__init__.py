"""What the chart runs beside management: before changes of a release, and as its test."""
