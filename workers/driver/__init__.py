"""The driver pod: runs the user's script on the appliance, and restarts it by its policy."""
