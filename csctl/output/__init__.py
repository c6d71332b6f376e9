"""Objects of the cluster as text: one module per resource, each a list of columns."""
