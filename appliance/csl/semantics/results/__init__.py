"""What a compilation collects: the layout, and the code and memory of each class of PEs."""
