"""The command line tool over the queue.

csctl asks the cluster's `CsCtlV1` service for protobuf objects and renders them here: `commands`
hold what a user types, `client` the calls, `config` the way to the cluster, `output` every text and
document. It decides nothing about jobs.
"""
