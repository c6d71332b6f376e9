"""The planner: what N systems would do with a model that is described by its dimensions."""
