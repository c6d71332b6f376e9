"""The one thread that moves jobs, and the values and pure machines that it decides with."""
