"""Output for programs: JSON and YAML."""
