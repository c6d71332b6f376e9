"""The REST application."""

from fastapi import APIRouter, FastAPI

from appliance.api.errors import install_error_handlers
from appliance.api.estimates import estimate_router
from appliance.api.schemas import Cluster, Health, Job, JobPage, JobSummary
from appliance.core.ids import JobId
from appliance.management.inventory import Inventory
from appliance.management.jobs import JobService
from appliance.storage.jobs import JobFilter

_MAX_JOBS = 1000


def create_app(jobs: JobService, inventory: Inventory) -> FastAPI:
    """Return the application over management's services."""
    app = FastAPI(title="Wafer appliance", version="1", openapi_url="/api/v1/openapi.json")
    install_error_handlers(app)
    app.include_router(_job_router(jobs), prefix="/api/v1")
    app.include_router(_cluster_router(inventory), prefix="/api/v1")
    app.include_router(estimate_router(), prefix="/api/v1")

    @app.get("/healthz")
    def health() -> Health:
        """Say that the appliance answers."""
        return Health(status="ok")

    return app


def _job_router(jobs: JobService) -> APIRouter:
    router = APIRouter(tags=["jobs"])

    @router.get("/jobs")
    def list_jobs(
        *, all_states: bool = False, session: str = "", workflow: str = "", limit: int = 100
    ) -> JobPage:
        """Return jobs; finished ones only with `all_states`."""
        wanted = JobFilter(
            session=session,
            workflow=workflow,
            with_finished=all_states,
            limit=min(max(limit, 1), _MAX_JOBS),
        )
        return JobPage(items=[JobSummary.of(job) for job in jobs.list(wanted)])

    @router.get("/jobs/{job_id}")
    def get_job(job_id: str) -> Job:
        """Return a job with its pods and events."""
        return Job.of_view(jobs.view(JobId(job_id)))

    return router


def _cluster_router(inventory: Inventory) -> APIRouter:
    router = APIRouter(tags=["cluster"])

    @router.get("/cluster")
    def get_cluster() -> Cluster:
        """Return systems and nodes with the jobs on them."""
        return Cluster.of(list(inventory.system_uses()), list(inventory.node_uses()))

    return router
