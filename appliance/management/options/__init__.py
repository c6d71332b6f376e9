"""The settings of an appliance, with their defaults and help texts."""
