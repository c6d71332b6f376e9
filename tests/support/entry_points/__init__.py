"""Sockets and files of the appliance, which tests hold to what is opened and written.

To add one: a row in `sockets.SOCKETS`, `sockets.INNER_METHODS` or `written_files.FILES`, then
`ENTRY_POINTS_WRITE=1 pytest tests/architecture/test_entry_points.py`.
"""
