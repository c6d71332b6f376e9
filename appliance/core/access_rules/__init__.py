"""Every way into the appliance: gRPC methods, REST routes, sockets and files.

`model` says what a rule is, `rules` holds each rule once, `methods` gives one to every gRPC method;
`sockets` lists what listens, between the appliance's own processes too, and `files` what lies on
disk. docs/entry-points.md is generated from these and from the routes' signatures; a test fails
when something is served, listened at or written that is not here.

To add an entry point:

* a gRPC method of management: its rule in `methods`;
* a REST route: `Annotated[Entry, enter(rules.X)]` among its parameters (`appliance.api.entry`);
* a method between our own processes: a line in `sockets.INNER_METHODS`;
* something that listens: a row in `sockets.SOCKETS`;
* a file or directory of the data or runtime directory: a row in `files.FILES`;
* then `ENTRY_POINTS_WRITE=1 pytest tests/architecture/test_entry_points.py`.
"""
