"""Variables of a driver whose values the kubelet reads, as `spec.driver.valueFrom` of a wsjob says.

The kubelet reads them for the driver's pod, in the pod's namespace: management has no right to read
a Secret. Whoever may create wsjobs need not have it either, and a namespace holds the appliance's
own Secrets, too. So a driver may name only what an administrator has listed.
"""

from collections.abc import Mapping, Sequence

from appliance.cluster.kubernetes.object_kinds import Resource
from appliance.cluster.kubernetes.options import KubernetesOptions
from appliance.core.cluster.drivers import VALUE_PREFIX, DriverSpec
from appliance.core.errors import UserError
from appliance.core.pods.pod_options import DriverPodOptions
from appliance.core.pods.pod_spec import PodSpec

FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "status.hostIP",
    "status.podIP",
)
"""Of its own pod, what a script may be told."""


def check_variables(driver: DriverSpec, options: KubernetesOptions) -> None:
    """Hold a driver to what it may have read.

    Raises:
        UserError: A variable is of something else.
    """
    for name, source in driver.value_from.items():
        if len(source) != 1:
            raise UserError(
                f"Variable {name} is to be read from {len(source)} places; name one of "
                "secretKeyRef, configMapKeyRef and fieldRef."
            )
        ((kind, reference),) = source.items()
        match kind:
            case "secretKeyRef":
                _check_name(name, "Secret", reference, options.driver_secrets, "Secrets")
            case "configMapKeyRef":
                _check_name(name, "ConfigMap", reference, options.driver_config_maps, "ConfigMaps")
            case _:
                _check_field(name, kind, reference)


def _check_field(variable: str, kind: str, reference: Resource) -> None:
    field = reference.get("fieldPath", "")
    if kind != "fieldRef" or field not in FIELDS:
        raise UserError(
            f"Variable {variable} is to be read from {kind} {field!r}, which cannot be.",
            hint=f"A fieldRef has one of: {', '.join(FIELDS)}.",
        )


# `Any` of `Resource`: a reference is JSON of a wsjob.
def _check_name(
    variable: str, kind: str, reference: Resource, allowed: Sequence[str], value: str
) -> None:
    if reference["name"] in allowed:
        return
    listed = ", ".join(allowed) or "none"
    raise UserError(
        f"Variable {variable} is to be read from {kind} {reference['name']}, and drivers may read "
        f"{listed}.",
        hint=f"Ask an administrator to list it in the chart's jobs.driver{value}.",
    )


def container_variables(spec: PodSpec) -> list[Resource]:
    """Return what the container of a driver has so; nothing for other pods.

    The names are apart from those of the pod's own program, which a script cannot change so.
    """
    if not isinstance(spec.options, DriverPodOptions) or not spec.options.driver:
        return []
    value_from: Mapping[str, Resource] = DriverSpec.from_json(spec.options.driver).value_from
    return [
        {"name": VALUE_PREFIX + name, "valueFrom": source}
        for name, source in sorted(value_from.items())
    ]
