"""Where the compiled programs of an SDK job lie in the job's directory, which outlives its pod."""

ARTIFACTS = "artifacts"
"""Directory of `<hash>.tar.gz`, as the client downloads them."""
