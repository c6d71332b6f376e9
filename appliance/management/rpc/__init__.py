"""The gRPC services of management, and the checks that every call passes."""
