{{- define "tributary.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tributary.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "tributary.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tributary.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that never change, of the whole installation. */}}
{{- define "tributary.selector" -}}
app.kubernetes.io/name: {{ include "tributary.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tributary.labels" -}}
{{ include "tributary.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "tributary.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The name of a topic or consumer group in Kafka. Takes (list $ name). */}}
{{- define "tributary.onKafka" -}}
{{- $root := index . 0 -}}
{{ $root.Values.config.TRIBUTARY_PREFIX | default "" }}{{ index . 1 }}
{{- end -}}

{{/* Settings that are secrets, as `tributary config` has them. */}}
{{- define "tributary.secrets" -}}
- ELASTICSEARCH_API_KEY
- ELASTICSEARCH_PASSWORD
- ELASTICSEARCH_SERVICE_TOKEN
- KAFKA_SASL_OAUTH_CLIENT_SECRET
- KAFKA_SASL_PASSWORD
- OTEL_EXPORTER_OTLP_HEADERS
- REDIS_SENTINEL_PASSWORD
- REDIS_URL
- SCHEMA_REGISTRY_PASSWORD
- TRIBUTARY_DEV_ISSUER_KEY
- TRIBUTARY_OAUTH_CLIENTS
- TRIBUTARY_SECRET_KEYS
- TRIBUTARY_SEGMENT_SECRETS
- TRIBUTARY_SMTP_PASSWORD
{{- end -}}

{{/* Settings that other values decide, with these values. */}}
{{- define "tributary.decided" -}}
HOST: listenAddress
PORT: it is 8080, behind gateway.service.port
TRIBUTARY_ADMIN_HOST: listenAddress
TRIBUTARY_ADMIN_PORT: it is 9080
TRIBUTARY_CREATE_TOPICS: topics.enabled
TRIBUTARY_DATA_DIR: it is in a volume
TRIBUTARY_DRAIN: gateway.drainSeconds
TRIBUTARY_SHUTDOWN_GRACE: gateway.shutdownGraceSeconds, stageDefaults.shutdownGraceSeconds
TRIBUTARY_STAGES_HEAP: stageDefaults.heap
{{- end -}}

{{/* The environment of every process. Written into each pod, so that a change of a setting restarts the pods. */}}
{{- define "tributary.env" -}}
{{- $secrets := include "tributary.secrets" . | fromYamlArray -}}
{{- $decided := include "tributary.decided" . | fromYaml -}}
{{- range $name, $value := .Values.config }}
{{- if has $name $secrets }}
{{- fail (printf "config.%s is a secret: put it into a Secret, and name that in secretFiles.%s" $name $name) }}
{{- else if hasSuffix "_FILE" $name }}
{{- fail (printf "config.%s is a file: name its Secret or ConfigMap in secretFiles.%s" $name (trimSuffix "_FILE" $name)) }}
{{- else if hasKey $decided $name }}
{{- fail (printf "config.%s is decided by other values: %s" $name (get $decided $name)) }}
{{- end }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $source := .Values.secretFiles }}
- name: {{ $name }}_FILE
  value: /run/secrets/tributary/{{ $name }}
{{- end }}
- name: TRIBUTARY_CREATE_TOPICS
  value: {{ not .Values.topics.enabled | quote }}
# Kubernetes gives the volume to root, so the process makes a folder of its own in it.
- name: TRIBUTARY_DATA_DIR
  value: /data/tributary
{{- end -}}

{{/* The environment of a process that serves: two ports, and how it ends. Takes (list $ drainSeconds graceSeconds). */}}
{{- define "tributary.serverEnv" -}}
{{- $root := index . 0 -}}
- name: HOST
  value: {{ $root.Values.listenAddress | quote }}
- name: PORT
  value: "8080"
- name: TRIBUTARY_ADMIN_HOST
  value: {{ $root.Values.listenAddress | quote }}
- name: TRIBUTARY_ADMIN_PORT
  value: "9080"
- name: TRIBUTARY_DRAIN
  value: {{ index . 1 }}s
- name: TRIBUTARY_SHUTDOWN_GRACE
  value: {{ index . 2 }}s
{{- end -}}

{{/*
The probes. The process serves both ports from its first second. It is ready once it has read the catalog, for as long as
it is trusted; engines that fail do not count, as a restart would not help them.
*/}}
{{- define "tributary.probes" -}}
startupProbe:
  httpGet: { path: /livez, port: admin }
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /livez, port: admin }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /readyz, port: admin }
  periodSeconds: 3
  timeoutSeconds: 3
  failureThreshold: 2
{{- end -}}

{{- define "tributary.ports" -}}
- { name: http, containerPort: 8080 }
- { name: admin, containerPort: 9080 }
{{- end -}}

{{/* As the profile "restricted" of the Pod Security Standards wants it. */}}
{{- define "tributary.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "tributary.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "tributary.mounts" -}}
- { name: data, mountPath: /data }
{{- if .Values.secretFiles }}
- { name: secret-files, mountPath: /run/secrets/tributary, readOnly: true }
{{- end }}
{{- end -}}

{{/* The data folder holds a snapshot of the catalog and notes of crashes: both outlive a restart of the container. */}}
{{- define "tributary.volumes" -}}
- name: data
  emptyDir: {}
{{- if .Values.secretFiles }}
- name: secret-files
  projected:
    defaultMode: 0440
    sources:
      {{- range $name, $source := .Values.secretFiles }}
      {{- if $source.secret }}
      - secret:
          name: {{ $source.secret }}
          items: [{ key: {{ $source.key | quote }}, path: {{ $name }} }]
      {{- else }}
      - configMap:
          name: {{ $source.configMap }}
          items: [{ key: {{ $source.key | quote }}, path: {{ $name }} }]
      {{- end }}
      {{- end }}
{{- end }}
{{- end -}}

{{/* Fields that every pod has. Takes $. */}}
{{- define "tributary.pod" -}}
automountServiceAccountToken: false
# A Service called "tributary" would set variables with that prefix, and unknown ones stop a start.
enableServiceLinks: false
securityContext:
  {{- include "tributary.podSecurity" . | nindent 2 }}
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where pods of a Deployment go. Takes (list $ placement matchLabels). */}}
{{- define "tributary.placement" -}}
{{- $root := index . 0 -}}
{{- $placement := index . 1 -}}
{{- $labels := index . 2 -}}
{{- with $root.Values.topologySpread.keys }}
topologySpreadConstraints:
  {{- range . }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: {{ $root.Values.topologySpread.whenUnsatisfiable }}
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- $labels | nindent 8 }}
  {{- end }}
{{- end }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $placement $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with $placement.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}
