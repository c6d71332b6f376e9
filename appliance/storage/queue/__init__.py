"""Jobs, their workflows, pods and leases."""
