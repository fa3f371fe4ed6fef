{{/*
The stages, each with the topics whose lag is work to be done. Not here: retry topics, whose records wait for their time,
topics of one partition, which a second process does not help, and records of loads.
*/}}
{{- define "tributary.stages" -}}
validate: [events.production, events.development]
validate.slow: [events.received.slow]
funnel: []
live: [events.accepted, events.rejected]
profile: [events.accepted, profiles.slow]
history: [violations, deliveries.dead, deliveries.outcomes]
audit: []
mail: []
route: [events.accepted]
route.slow: [events.slow]
replay: []
load: []
notice: []
deliver: [deliveries]
deliver.slow: [deliveries.slow]
deliver.retry: []
{{- end -}}

{{/* The groups, each with its defaults, as {"groups": [...]}. Refuses what would leave a stage without a process. */}}
{{- define "tributary.groups" -}}
{{- $known := include "tributary.stages" . | fromYaml -}}
{{- $partitions := int (.Values.config.TRIBUTARY_PARTITIONS | default 4) -}}
{{- $names := dict -}}
{{- $taken := dict -}}
{{- $groups := list -}}
{{- range $given := .Values.stageGroups -}}
  {{- $group := mustMergeOverwrite (deepCopy $.Values.stageDefaults) $given -}}
  {{- if hasKey $names $group.name -}}
    {{- fail (printf "stageGroups: two groups are called %q" $group.name) -}}
  {{- end -}}
  {{- $_ := set $names $group.name true -}}
  {{- $stages := $group.stages -}}
  {{- if kindIs "string" $stages -}}
    {{- $stages = keys $known | sortAlpha -}}
  {{- end -}}
  {{- range $stages -}}
    {{- if not (hasKey $known .) -}}
      {{- fail (printf "stageGroups: %q in the group %q is no stage; there are %s" . $group.name (keys $known | sortAlpha | join ", ")) -}}
    {{- end -}}
    {{- if hasKey $taken . -}}
      {{- fail (printf "stageGroups: the stage %q is in the groups %q and %q" . (get $taken .) $group.name) -}}
    {{- end -}}
    {{- $_ := set $taken . $group.name -}}
  {{- end -}}
  {{- with $group.autoscaling -}}
    {{- if gt (int .maxReplicas) $partitions -}}
      {{- if .enabled -}}
        {{- fail (printf "stageGroups: autoscaling.maxReplicas of %q is %d, and there are %d partitions (TRIBUTARY_PARTITIONS): further processes would have nothing to do" $group.name (int .maxReplicas) $partitions) -}}
      {{- end -}}
    {{- end -}}
    {{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
      {{- fail (printf "stageGroups: autoscaling of %q has minReplicas above maxReplicas" $group.name) -}}
    {{- end -}}
    {{- if and .enabled (not .kafka.enabled) (not .prometheus.enabled) -}}
      {{- fail (printf "stageGroups: autoscaling of %q has no trigger: enable kafka or prometheus" $group.name) -}}
    {{- end -}}
    {{- if and .enabled .prometheus.enabled (not .prometheus.serverAddress) -}}
      {{- fail (printf "stageGroups: autoscaling.prometheus.serverAddress of %q is needed" $group.name) -}}
    {{- end -}}
  {{- end -}}
  {{- $_ := set $group "stages" $stages -}}
  {{- $_ := set $group "runsAll" (eq (len $stages) (len $known)) -}}
  {{- $groups = append $groups $group -}}
{{- end -}}
{{- range $stage := keys $known | sortAlpha -}}
  {{- if not (hasKey $taken $stage) -}}
    {{- fail (printf "stageGroups: the stage %q is in no group, and every stage must run somewhere" $stage) -}}
  {{- end -}}
{{- end -}}
{{- dict "groups" $groups | toYaml -}}
{{- end -}}

{{/* Labels that select the pods of a group. Takes (list $ name). */}}
{{- define "tributary.groupSelector" -}}
{{ include "tributary.selector" (index . 0) }}
app.kubernetes.io/component: stages
tributary/stages: {{ index . 1 }}
{{- end -}}

{{- define "tributary.gatewaySelector" -}}
{{ include "tributary.selector" . }}
app.kubernetes.io/component: gateway
{{- end -}}
