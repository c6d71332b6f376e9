"""The coordinator's side of its client: the service, answers, outputs and readings."""
