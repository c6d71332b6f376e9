"""Translation between protobuf messages and the domain; one module per proto file."""
