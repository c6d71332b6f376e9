"""The one thread that moves jobs, and the values and machines that it decides with."""
