"""How a coordinator takes and makes the initial weights."""
