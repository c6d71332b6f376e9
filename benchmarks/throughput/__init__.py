"""An appliance whose jobs do nothing, and Slurm beside it, for the queue's throughput."""
