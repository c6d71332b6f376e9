"""A discrete-event simulator of the queue, around the appliance's own scheduler."""
