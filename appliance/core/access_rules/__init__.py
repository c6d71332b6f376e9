"""Who may call what of the appliance: gRPC methods and REST routes.

`model` says what a rule is, `rules` holds each rule once, `methods` gives one to every gRPC method,
`open_paths` lists the paths of REST that need none. Sockets and files are in
`tests/support/entry_points`. docs/entry-points.md is generated from these and from the routes'
signatures; a test fails when something is served, listened at or written that is not there.

To add an entry point:

* a gRPC method of management: its rule in `methods`;
* a REST route: `Annotated[Entry, enter(rules.X)]` among its parameters (`appliance.api.entry`);
* then `ENTRY_POINTS_WRITE=1 pytest tests/architecture/test_entry_points.py`.
"""
