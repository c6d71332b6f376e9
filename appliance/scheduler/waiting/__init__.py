"""What users are told about a job that waits: why, behind whom, and until when."""
