"""The client's wire: jobs, workflows, leases and reservations."""
