"""The coordinator of a job: compiles its program, loads its pods, serves its client."""
