"""How an appliance is set up: every setting, its default and what people are told of it."""
