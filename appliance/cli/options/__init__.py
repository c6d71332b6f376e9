"""Options that several commands of `appliance` share."""
