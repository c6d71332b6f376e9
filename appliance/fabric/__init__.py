"""The simulated fabric: processing elements, routers and cycles.

What happens in a clock cycle is in `native`; the rest loads programs, drives them and reports.

    native          the kernel in C: a cycle, routers, cores, microthreads
    bytecode        numbers and records that Python and the kernel share
    optimising      scalar code in fewer cycles
    lowering        from the typed program to byte code
    loading         code classes, routes and the grid as the kernel takes them
    simulator       the host's side: a program at work, its commands one after another
    commands        what the host can command
    host_order      the order of elements in arrays of the host
    symbols         exported names
    descriptors     DSDs as 64-bit words
    floats          16-bit formats
    reports, paths  faults and stalls: who waits, and who would have to act
    errors          what callers see of them
    tracing         traces: recording, files, pictures
"""
