"""The queue's process: services over jobs, the servicers in front of them, the reconciler."""
