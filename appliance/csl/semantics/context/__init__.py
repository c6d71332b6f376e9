"""Where an expression is evaluated: session, module, frame, and the function being compiled."""
