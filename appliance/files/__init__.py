"""Files and directories: what callers may name, as whom it is opened, who may see what we make."""
