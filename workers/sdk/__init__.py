"""The pod of an SDK job: compiles CSL, keeps the client's files, runs its commands and programs.

    process    serves the client and management, and ends in order
    servicer   the client's service `cerebras.sdk_appliance`, in terms of what follows
    files      uploads and downloads, by a program of the user
    compiler   `cslc`, run as the user, and the cache of what it has made (`cache`)
    commands   shell commands beside an artifact
    device     a runtime that the client drives operation by operation
    programs   how anything of the user is started: as the user, within the job's limits

Nothing that the client sends is read, compiled or run in the pod's own process, which only hands it
on.
"""
