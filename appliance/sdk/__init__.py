"""The SDK's tools and what programs on the host import: `cslc`, `cs_python` and their modules.

    cslc            compiles CSL; `arguments` reads its command line, `container` its output
    cs_python       runs Python with the modules of `host_modules`, which no other Python sees
    runtime         what host programs drive, with `tasks`, `arrays`, `symbols`, `inspection`
    runtime_server  the same runtime as a process that an SDK job's pod drives, over `frames`
    file_server     reads and writes the files of an SDK job as its user, over `frames`

Nothing here needs an appliance. Importing a module of this package imports neither torch nor gRPC.
"""
