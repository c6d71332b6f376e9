"""The REST shell: FastAPI routers over management's services, one call each."""
