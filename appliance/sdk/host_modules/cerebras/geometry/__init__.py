"""Points and rectangles."""
