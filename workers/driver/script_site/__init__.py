"""A folder of the script's PYTHONPATH, whose `sitecustomize` Python imports before the script."""
