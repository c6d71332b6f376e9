"""Values of management: where its pods go; its notifications, logins and traces."""

from tests.support.helm import Settings

POLICY_API = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"

TELLING = Settings(
    values=(
        "management.notifySecret=notify",
        "management.oidcSecret=oidc",
        "management.otlpEndpoint=http://collector:4318",
        "management.extraEnv[0].name=HTTPS_PROXY",
        "management.extraEnv[0].value=http://proxy:3128",
        "management.extraVolumes[0].name=authorities",
        "management.extraVolumes[0].configMap.name=authorities",
        "management.extraVolumeMounts[0].name=authorities",
        "management.extraVolumeMounts[0].mountPath=/etc/wsc/authorities",
    )
)
PLACEMENT = Settings(
    values=(
        "management.nodeSelector.disk=fast",
        "management.tolerations[0].operator=Exists",
        "management.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
        ".weight=1",
        "management.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
        ".preference.matchExpressions[0].key=a",
        "management.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
        ".preference.matchExpressions[0].operator=Exists",
        "management.priorityClassName=high",
        "management.podLabels.team=a",
        "management.podAnnotations.note=b",
        "management.preemption=true",
        "management.extraArgs={--stall-seconds=60}",
        "imagePullSecrets[0].name=registry",
        "image.tag=1.2.3",
    )
)
SESSIONS = Settings(
    values=(
        "sessions.research.namespace=team-research",
        "sessions.research.dataClaim=shared",
        "sessions.teaching.namespace=classes",
        "sessions.teaching.userVolumes[0].name=home",
        "sessions.teaching.userVolumes[0].path=/home",
        "sessions.teaching.userVolumes[0].claim=pupils",
        "sessions.teaching.kueueQueue=lessons",
        "jobs.kueue.enabled=true",
        "admissionPolicy.enabled=true",
    ),
    api_versions=(POLICY_API, "policy/v1"),
)
ADMISSION = Settings(
    values=(
        "admissionPolicy.enabled=true",
        "admissionPolicy.userPrefix=oidc:",
        "admissionPolicy.uids.ada=1001",
        "admissionPolicy.uids.eve=1002",
        "admissionPolicy.gids.eve=50",
        "admissionPolicy.ownersOnly=true",
        "admissionPolicy.admins={ops}",
        "rbac.aggregateClusterRoles=false",
        "crds.upgrade=false",
    ),
    api_versions=(POLICY_API,),
)
