"""The rules of management's gRPC methods and REST routes, by what is asked for.

Each rule is defined once. A gRPC method names its rule in `methods`, a REST route in its own
signature (`api.entry.enter`).
"""

from dataclasses import replace

from appliance.core.access_rules.model import KIB, MIB, Cost, Identity, Lookup, Rule
from appliance.core.cluster.access import Action

PUBLIC = Rule(action=Action.READ, identity=Identity.NOTHING, max_bytes=64 * KIB)
LOGIN = replace(PUBLIC, kind="login", max_bytes=16 * KIB)
PROVIDER_LOGIN = replace(PUBLIC, kind="login", cost=Cost.LOGIN, max_bytes=0)
READ = Rule(action=Action.READ)
READ_JOB = Rule(action=Action.READ, kind="job")
CLIENT_STREAM = Rule(
    action=Action.READ, identity=Identity.OBJECT, cost=Cost.CLIENT, max_bytes=64 * KIB
)
ATTACH_JOB = Rule(action=Action.ATTACH_JOB, kind="job", lookup=Lookup.JOB, field="job_id")
INGRESS = replace(ATTACH_JOB, identity=Identity.OBJECT, cost=Cost.CLIENT, max_bytes=64 * KIB)
BEAT = replace(ATTACH_JOB, lookup=Lookup.LEASE, max_bytes=64 * KIB)
REPORT = Rule(action=Action.READ, cost=Cost.EXPORT)
FOLLOW = Rule(action=Action.READ, cost=Cost.FOLLOW)
ESTIMATE = Rule(action=Action.READ, kind="estimate", cost=Cost.HEAVY, max_bytes=16 * MIB)

NEW_WORKFLOW = Rule(action=Action.SUBMIT, kind="workflow", cost=Cost.SUBMIT)
SUBMIT = Rule(
    action=Action.SUBMIT, kind="job", lookup=Lookup.NEW_JOB, cost=Cost.SUBMIT, max_bytes=4 * MIB
)
SUBMIT_DRIVER = replace(SUBMIT, lookup=Lookup.NEW_DRIVER)
SUBMIT_DETACHED = replace(SUBMIT, lookup=Lookup.BODY)
END_JOB = Rule(action=Action.END_JOB, kind="job", lookup=Lookup.JOB, field="job_id")
END_JOB_IF_NAMED = replace(END_JOB, lookup=Lookup.JOB_IF_NAMED)
EDIT_JOB = Rule(action=Action.EDIT_JOB, kind="job", lookup=Lookup.JOB, field="job_id")
CHANGE_JOB = replace(EDIT_JOB, lookup=Lookup.BODY, or_actions=(Action.PRIORITISE_JOB,))
RELEASE_JOB = replace(EDIT_JOB, action=Action.RELEASE_JOB)
PRIORITISE_JOB = replace(EDIT_JOB, action=Action.PRIORITISE_JOB, lookup=Lookup.JOB_AND_PRIORITY)
EDIT_WORKFLOW = Rule(
    action=Action.EDIT_JOB, kind="workflow", lookup=Lookup.WORKFLOW, field="workflow_id"
)
EDIT_WORKFLOW_OF_JOB = replace(EDIT_WORKFLOW, lookup=Lookup.WORKFLOW_OF_JOB, field="job_id")
END_RUN = replace(EDIT_WORKFLOW, action=Action.END_JOB, field="run_id")
CLEAR_WORKER_CACHE = Rule(action=Action.SUBMIT, kind="worker-cache")

READ_LOGS = Rule(
    action=Action.READ_LOGS, kind="job", lookup=Lookup.JOB, field="job_id", cost=Cost.EXPORT
)
READ_CONFIGURATION = replace(READ_LOGS, cost=Cost.LIGHT)
LIST_LOGS = READ_CONFIGURATION
FIND_CHECKPOINTS = replace(READ_JOB, cost=Cost.EXPORT)
FOLLOW_LOG = replace(READ_LOGS, cost=Cost.FOLLOW)
READ_EXPORT = replace(READ_CONFIGURATION, lookup=Lookup.EXPORT, field="export_id")
DOWNLOAD_EXPORT = replace(READ_EXPORT, cost=Cost.EXPORT)

MANAGE_SESSION = Rule(
    action=Action.MANAGE_SESSIONS, kind="session", lookup=Lookup.SESSION, field="name"
)
NEW_SESSION = replace(MANAGE_SESSION, lookup=Lookup.BODY)
CHANGE_SESSION = replace(MANAGE_SESSION, lookup=Lookup.BODY, or_actions=(Action.PAUSE_SESSION,))
PAUSE_SESSION = replace(MANAGE_SESSION, action=Action.PAUSE_SESSION)

MANAGE_SYSTEMS = Rule(action=Action.MANAGE_SYSTEMS, kind="system")
MANAGE_SYSTEM = replace(MANAGE_SYSTEMS, lookup=Lookup.NAME, field="name")
PLAN_MAINTENANCE = replace(MANAGE_SYSTEMS, lookup=Lookup.BODY)
END_MAINTENANCE = replace(MANAGE_SYSTEM, kind="maintenance", field="plan_id")
PUT_CLUSTER_FILE = replace(MANAGE_SYSTEMS, kind="cluster")
UPDATE_EXPORT = replace(MANAGE_SYSTEM, kind="export", field="export_id")
REPORT_SYSTEM_EVENT = replace(MANAGE_SYSTEM, field="system_name")

MANAGE_USERS = Rule(action=Action.MANAGE_USERS, kind="user")
MANAGE_USER = replace(MANAGE_USERS, lookup=Lookup.NAME, field="name")
MANAGE_UID = replace(MANAGE_USERS, lookup=Lookup.NAME, field="user_id")
NEW_USER = replace(MANAGE_USERS, lookup=Lookup.BODY)
LIST_USERS = replace(MANAGE_USERS, is_reading=True)
READ_ACCOUNT = replace(LIST_USERS, lookup=Lookup.ACCOUNT, field="name")
LIST_TOKENS = Rule(action=Action.MANAGE_TOKENS, kind="token", lookup=Lookup.BODY)
MINT_TOKEN = LIST_TOKENS
REVOKE_TOKEN = replace(LIST_TOKENS, lookup=Lookup.TOKEN, field="token")
READ_AUDIT = Rule(action=Action.READ_AUDIT, kind="audit")
