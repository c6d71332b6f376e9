{{- define "wsc-appliance.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Begins names of Services and Jobs: a DNS label, with room for what follows within 63 characters. */}}
{{- define "wsc-appliance.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $own := include "wsc-appliance.name" . -}}
{{- $name = ternary .Release.Name (printf "%s-%s" .Release.Name $own) (contains $own .Release.Name) -}}
{{- end -}}
{{- $name = $name | replace "." "-" | trunc 50 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "objects of the release would be named %s-..., and names of Services begin with a letter, then have small letters, digits and hyphens: set fullnameOverride to such a name" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/*
Begins names of objects that belong to no namespace. Neither part has a dot, so it is another one for every
release: with a hyphen, `b-c` in namespace a would meet `c` in namespace a-b.
*/}}
{{- define "wsc-appliance.clusterName" -}}
{{- printf "%s.%s" .Release.Namespace (include "wsc-appliance.fullname" .) -}}
{{- end -}}

{{- define "wsc-appliance.selectorLabels" -}}
app.kubernetes.io/name: {{ include "wsc-appliance.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "wsc-appliance.labels" -}}
{{ include "wsc-appliance.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Labels of the pods of jobs, which network policies and disruption budgets select. */}}
{{- define "wsc-appliance.jobPodLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: job
{{- end -}}

{{- define "wsc-appliance.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "wsc-appliance.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* Of the pods of jobs, in every namespace that they are in; it has no rights. */}}
{{- define "wsc-appliance.podAccount" -}}
{{- if .Values.serviceAccount.create }}{{ include "wsc-appliance.fullname" . }}-pods{{ else }}default{{ end -}}
{{- end -}}

{{- define "wsc-appliance.image" -}}
{{- include "wsc-appliance.reference" (dict "repository" .Values.image.repository "tag" (.Values.image.tag | default .Chart.AppVersion)) -}}
{{- end -}}

{{/* An image by its tag or by its digest, which either may have; takes repository and tag. */}}
{{- define "wsc-appliance.reference" -}}
{{- $tag := include "wsc-appliance.tag" .tag -}}
{{- if contains "@" .repository }}{{ .repository }}
{{- else if hasPrefix "sha256:" $tag }}{{ printf "%s@%s" .repository $tag }}
{{- else }}{{ printf "%s:%s" .repository $tag }}{{ end -}}
{{- end -}}

{{/* A tag that may be written as a number, which YAML reads as a float. */}}
{{- define "wsc-appliance.tag" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ printf "%.0f" . }}{{ else }}{{ toString . }}{{ end -}}
{{- end -}}

{{- define "wsc-appliance.dataClaim" -}}
{{- default (printf "%s-data" (include "wsc-appliance.fullname" .)) .Values.storage.existingClaim -}}
{{- end -}}

{{/* Name by which clients reach the appliance. */}}
{{- define "wsc-appliance.publicName" -}}
{{- if contains ":" .Values.service.publicName -}}
{{- fail (printf "service.publicName is %s, and clients take a name or an IPv4 address alone: give a name, without a port (service.port has that)" .Values.service.publicName) -}}
{{- end -}}
{{- default (printf "%s.%s.svc" (include "wsc-appliance.fullname" .) .Release.Namespace) .Values.service.publicName -}}
{{- end -}}

{{/* Addresses of a Service: of which families. */}}
{{- define "wsc-appliance.ipFamilies" -}}
{{- with .Values.service.ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .Values.service.ipFamilies }}
ipFamilies: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Port that clients are told: that of the Service without an address is the pods' own. */}}
{{- define "wsc-appliance.publicPort" -}}
{{- if eq .Values.service.type "NodePort" -}}{{ .Values.service.nodePort }}
{{- else if and (eq .Values.service.type "ClusterIP") (not .Values.service.publicName) -}}9000
{{- else -}}{{ .Values.service.port }}{{- end -}}
{{- end -}}

{{/* Whether clients are passed on by pods of their own: these find coordinators in a database of its own. */}}
{{- define "wsc-appliance.hasProxy" -}}
{{- if and (eq .Values.jobs.launcher "kubernetes") (ne .Values.postgresql.mode "none") -}}true{{- end -}}
{{- end -}}

{{/* Pods that clients connect to. */}}
{{- define "wsc-appliance.clientsSelector" -}}
{{- $component := ternary "proxy" "management" (eq (include "wsc-appliance.hasProxy" .) "true") -}}
{{ include "wsc-appliance.selectorLabels" . }}
app.kubernetes.io/component: {{ $component }}
{{- if and (eq .Values.jobs.launcher "kubernetes") (eq $component "management") }}
wsc.open-appliance.org/leader: "true"
{{- end }}
{{- end -}}

{{/* How libpq proves who it is, and knows the server. */}}
{{- define "wsc-appliance.databaseEnv" -}}
{{- if ne .Values.postgresql.mode "none" }}
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "wsc-appliance.postgresqlSecret" . | quote }}, key: password}}
{{- end }}
{{- if and (eq .Values.postgresql.mode "external") .Values.postgresql.external.authoritySecret }}
- {name: PGSSLROOTCERT, value: /etc/wsc/postgresql/ca.crt}
{{- end }}
{{- end -}}

{{/* Names that the certificate must hold; the first two are what clients call sessions and jobs. */}}
{{- define "wsc-appliance.certificateNames" -}}
{{- $full := include "wsc-appliance.fullname" . -}}
{{- $names := list "*.cluster-server.cerebrassc.local" "cluster-server.cerebrassc.local" "localhost" (include "wsc-appliance.publicName" .) $full (printf "%s.%s" $full .Release.Namespace) (printf "%s.%s.svc" $full .Release.Namespace) (printf "%s.%s.svc.cluster.local" $full .Release.Namespace) -}}
{{- with .Values.ingress.host -}}{{- $names = append $names . -}}{{- end -}}
{{- toYaml (concat $names .Values.tls.extraNames | uniq) -}}
{{- end -}}

{{/* Secret with ca.crt, tls.crt and tls.key. */}}
{{- define "wsc-appliance.tlsSecret" -}}
{{- if eq .Values.tls.source "secret" -}}
{{- required "tls.secretName is needed with tls.source secret" .Values.tls.secretName -}}
{{- else -}}
{{- printf "%s-tls" (include "wsc-appliance.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* A StatefulSet's name is in a label of its pods, with a hash behind it: at most 52 characters. */}}
{{- define "wsc-appliance.postgresqlName" -}}
{{- printf "%s-postgresql" (include "wsc-appliance.fullname" . | trunc 41 | trimSuffix "-") -}}
{{- end -}}

{{/*
Secret with the key `password`, by one rule for the bundled and an external database: one that exists,
else one with `postgresql.password`, else (bundled alone) one that a job makes and that is never
rendered, so that it is the same after a removal and in every render.
*/}}
{{- define "wsc-appliance.postgresqlSecret" -}}
{{- $db := .Values.postgresql -}}
{{- if $db.existingSecret -}}
{{- $db.existingSecret -}}
{{- else if $db.password -}}
{{- printf "%s-password" (include "wsc-appliance.postgresqlName" .) -}}
{{- else if eq $db.mode "external" -}}
{{- fail "postgresql.existingSecret or postgresql.password is needed with postgresql.mode external" -}}
{{- else -}}
{{- include "wsc-appliance.postgresqlName" . -}}
{{- end -}}
{{- end -}}

{{/* Namespaces of sessions that have one of their own, as a list of JSON. */}}
{{- define "wsc-appliance.sessionNamespaces" -}}
{{- $names := list -}}
{{- range .Values.sessions -}}{{- $names = append $names .namespace -}}{{- end -}}
{{- sortAlpha $names | toJson -}}
{{- end -}}

{{/* Pods of jobs in these, as peers of a NetworkPolicy; nothing without such sessions. */}}
{{- define "wsc-appliance.sessionPeers" -}}
{{- if .Values.sessions }}
- namespaceSelector:
    matchExpressions:
      - {key: kubernetes.io/metadata.name, operator: In, values: {{ include "wsc-appliance.sessionNamespaces" . }}}
  podSelector:
    matchLabels: {{- include "wsc-appliance.jobPodLabels" . | nindent 6 }}
{{- end }}
{{- end -}}

{{/*
Account, role and binding of one hook, before its job and gone with it; without a hook they are the release's.
Takes root, name, when (the hook) and rules (YAML).
*/}}
{{- define "wsc-appliance.hookAccount" -}}
{{- $annotations := dict -}}
{{- if .when -}}
{{- $annotations = dict "helm.sh/hook" .when "helm.sh/hook-weight" "-10" "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded" -}}
{{- end -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name | quote }}
  labels: {{- include "wsc-appliance.labels" .root | nindent 4 }}
  annotations: {{- toYaml $annotations | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name | quote }}
  labels: {{- include "wsc-appliance.labels" .root | nindent 4 }}
  annotations: {{- toYaml $annotations | nindent 4 }}
rules: {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name | quote }}
  labels: {{- include "wsc-appliance.labels" .root | nindent 4 }}
  annotations: {{- toYaml $annotations | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ .name | quote }}}
subjects:
  - {kind: ServiceAccount, name: {{ .name | quote }}, namespace: {{ .root.Release.Namespace | quote }}}
{{- end -}}

{{/*
Role and binding of a hook's account in the namespace of a session.
Takes root, name, namespace, when (the hook) and rules (YAML).
*/}}
{{- define "wsc-appliance.hookRights" -}}
{{- $annotations := dict "helm.sh/hook" .when "helm.sh/hook-weight" "-10" "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name | quote }}
  namespace: {{ .namespace | quote }}
  labels: {{- include "wsc-appliance.labels" .root | nindent 4 }}
  annotations: {{- toYaml $annotations | nindent 4 }}
rules: {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name | quote }}
  namespace: {{ .namespace | quote }}
  labels: {{- include "wsc-appliance.labels" .root | nindent 4 }}
  annotations: {{- toYaml $annotations | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ .name | quote }}}
subjects:
  - {kind: ServiceAccount, name: {{ .name | quote }}, namespace: {{ .root.Release.Namespace | quote }}}
{{- end -}}

{{/* SQLAlchemy URL; the password comes to libpq by PGPASSWORD. */}}
{{- define "wsc-appliance.databaseUrl" -}}
{{- $db := .Values.postgresql -}}
{{- if eq $db.mode "bundled" -}}
{{- printf "postgresql+psycopg://%s@%s:5432/%s" $db.user (include "wsc-appliance.postgresqlName" .) $db.database -}}
{{- else if eq $db.mode "external" -}}
{{- $host := required "postgresql.external.host is needed with postgresql.mode external" $db.external.host | trimPrefix "[" | trimSuffix "]" -}}
{{- if contains ":" $host }}{{ $host = printf "[%s]" $host }}{{ end -}}
{{- printf "postgresql+psycopg://%s@%s:%v/%s?sslmode=%s" $db.user $host $db.external.port $db.database $db.external.sslMode -}}
{{- end -}}
{{- end -}}

{{- define "wsc-appliance.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: {{ int64 .Values.podSecurity.runAsUser }}
runAsGroup: {{ int64 .Values.podSecurity.runAsGroup }}
fsGroup: {{ int64 .Values.podSecurity.runAsGroup }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "wsc-appliance.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Where the pods of one part go, and before whom; takes the values of that part. */}}
{{- define "wsc-appliance.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Spreads the pods of one part over nodes where that can be; takes root and component. */}}
{{- define "wsc-appliance.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "wsc-appliance.selectorLabels" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The pod of a hook but for its containers: it goes where management goes. Takes root and account. */}}
{{- define "wsc-appliance.hookPod" -}}
restartPolicy: Never
serviceAccountName: {{ .account | quote }}
automountServiceAccountToken: true
enableServiceLinks: false
securityContext: {{- include "wsc-appliance.podSecurityContext" .root | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- include "wsc-appliance.placement" .root.Values.management }}
{{- end -}}

{{/* Class of a claim: none is the cluster's default, and a hyphen is that of volumes without a class. */}}
{{- define "wsc-appliance.storageClass" -}}
{{- with . }}
storageClassName: {{ ternary "" . (eq . "-") | quote }}
{{- end }}
{{- end -}}

{{/* Bytes of a quantity of Kubernetes such as 50Gi. */}}
{{- define "wsc-appliance.bytes" -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9.]+" $text -}}
{{- $power := regexFind "[kKMGTPE]" $text | upper -}}
{{- $base := ternary 1024 1000 (hasSuffix "i" $text) -}}
{{- $bytes := float64 $number -}}
{{- if hasSuffix "m" $text }}{{ $bytes = divf $bytes 1000 }}{{ end -}}
{{- range until (index (dict "" 0 "K" 1 "M" 2 "G" 3 "T" 4 "P" 5 "E" 6) $power) }}{{ $bytes = mulf $bytes $base }}{{ end -}}
{{- printf "%.0f" $bytes -}}
{{- end -}}

{{/* Uids by name of user, as a map of CEL. */}}
{{- define "wsc-appliance.ids" -}}
{{- $entries := list -}}
{{- range $name, $id := . -}}{{- $entries = append $entries (printf "%s: %d" (squote $name) (int64 $id)) -}}{{- end -}}
{ {{- join ", " $entries -}} }
{{- end -}}
