"""A discrete-event simulator of the queue: traces in, waits out, with the appliance's own scheduler."""
