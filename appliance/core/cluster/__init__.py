"""What a cluster consists of and what its jobs are: values that everybody shares."""
