{{/* The image of all of Tonnage's containers. */}}
{{- define "tonnage.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* What the pods of both servers have in common; the argument has the values of one server under "of". */}}
{{- define "tonnage.pod" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- {name: {{ . }}}
{{- end }}
{{- end }}
topologySpreadConstraints:
# Preferred, so that a cluster with one node or one zone has both replicas too.
- topologyKey: kubernetes.io/hostname
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  labelSelector: {matchLabels: {app: {{ .app }}}}
- topologyKey: topology.kubernetes.io/zone
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  labelSelector: {matchLabels: {app: {{ .app }}}}
priorityClassName: system-cluster-critical
{{- with .of.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .of.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65534
  runAsGroup: 65534
  fsGroup: 65534
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "tonnage.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* Probes end no process that is only slow: a container is restarted after a minute without an answer, and a new one
has two minutes to give its first. */}}
{{- define "tonnage.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: {{ .port }}{{ if .tls }}, scheme: HTTPS{{ end }}}
  periodSeconds: 2
  timeoutSeconds: 10
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: {{ .port }}{{ if .tls }}, scheme: HTTPS{{ end }}}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: {{ .port }}{{ if .tls }}, scheme: HTTPS{{ end }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
{{- end -}}

{{/* The namespaces from which metrics may be read, as peers of a NetworkPolicy. */}}
{{- define "tonnage.scrapers" -}}
- namespaceSelector:
    matchLabels: {{ toJson .Values.metrics.namespaceLabels }}
{{- end -}}

{{/* Every resource that a device configuration names, one per line: the values of keys such as resourceCountName. */}}
{{- define "tonnage.namedResources" -}}
{{- if kindIs "map" . -}}
{{- range $key, $value := . -}}
{{- if and (hasPrefix "resource" $key) (kindIs "string" $value) -}}
{{ $value }}{{ "\n" }}
{{- else -}}
{{ include "tonnage.namedResources" $value }}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" . -}}
{{- range . -}}{{ include "tonnage.namedResources" . }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The same, sorted, as a JSON list. */}}
{{- define "tonnage.resources" -}}
{{- include "tonnage.namedResources" .Values.devices | trim | splitList "\n" | uniq | sortAlpha | compact | toJson -}}
{{- end -}}

{{/* Not empty if the webhook changes pods that name no device, so that the API server must ask about every pod. */}}
{{- define "tonnage.changesEveryPod" -}}
{{- if kindIs "map" . -}}
{{- range $key, $value := . -}}
{{- if and (eq $key "overwriteEnv") (eq (toString $value) "true") -}}yes
{{- else if and (eq $key "gpuCorePolicy") (not (has $value (list "" "default"))) -}}yes
{{- else -}}{{ include "tonnage.changesEveryPod" $value }}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" . -}}
{{- range . -}}{{ include "tonnage.changesEveryPod" . }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* Not empty on a live cluster; templates that are rendered without one can look nothing up. */}}
{{- define "tonnage.isLive" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}yes{{- end -}}
{{- end -}}

{{/* Fail if a live cluster does not have a kind; the argument has "kind" (group/version/Kind) and "sentence". */}}
{{- define "tonnage.needs" -}}
{{- if and (include "tonnage.isLive" .root) (not (.root.Capabilities.APIVersions.Has .kind)) -}}
{{- fail (printf "%s, and this cluster has no %s: %s" .because .kind .advice) -}}
{{- end -}}
{{- end -}}
