"""The driver pod: runs the user's script on the appliance's side, and again if it should."""
