"""The cluster over REST."""

from fastapi import APIRouter

from appliance.api.cluster_schemas import Cluster
from appliance.api.problems import problems
from appliance.api.services import Caller, Services

router = APIRouter(tags=["cluster"])


@router.get("/cluster", responses=problems())
def get_cluster(caller: Caller, services: Services) -> Cluster:
    """Return systems and nodes with the jobs on them."""
    inventory = services.inventory
    return Cluster.of(inventory.system_uses(), inventory.node_uses())
