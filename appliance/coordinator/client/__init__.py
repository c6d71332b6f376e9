"""How a coordinator talks with the client: its service, answers, outputs and readings."""
