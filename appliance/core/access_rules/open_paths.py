"""Paths of the REST port that have no rule, since they give everybody the same answer."""

PAGES = (
    "GET /api/v1/openapi.json",
    "GET /assets/*",
    *(
        f"GET {page}"
        for page in (
            "/",
            "/queue",
            "/jobs/{job}",
            "/jobs/{job}/wafer",
            "/jobs/{job}/fabric",
            "/planner",
            "/admin",
            "/docs",
        )
    ),
    "GET /*",
)
"""The interface's description, and the dashboard's program: files that come with the appliance.

Whatever else is asked for is not found."""
