"""The SDK's tools and what programs on the host import; none of it needs an appliance.

    cslc, cs_python, cs_trace  the commands; `arguments` reads the command line of `cslc`
    container, symbols         a compiled program as a directory, and what the host may reach in it
    host                       the runtime that host programs drive
    host_modules               the names under which they import it; only `cs_python` sees these
    servers                    runtime and files of an SDK job, as programs of the job's user

Importing a module of this package imports neither torch nor gRPC.
"""
