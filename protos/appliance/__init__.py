"""The client's wire: a running job, and what describes one."""
