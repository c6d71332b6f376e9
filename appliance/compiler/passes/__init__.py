"""The compiler's passes, each a function from graph to graph."""
