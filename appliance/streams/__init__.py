"""Transport of tensors between the pods of a job."""
