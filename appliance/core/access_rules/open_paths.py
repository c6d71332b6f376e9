"""Paths of the REST port that have no rule, since they give everybody the same answer."""

PAGES = (
    "/",
    "/queue",
    "/runs",
    "/runs/{run}",
    "/jobs/{job}",
    "/jobs/{job}/wafer",
    "/jobs/{job}/fabric",
    "/planner",
    "/admin",
    "/docs",
)
"""The dashboard's pages; a test compares them with the routes of `web/src/main.tsx`."""

OPEN = (
    "GET /api/v1/openapi.json",
    "GET /assets/*",
    *(f"GET {page}" for page in PAGES),
    "GET /*",
)
"""The interface's description, and the dashboard's program: files that come with the appliance.

Whatever else is asked for is not found."""
