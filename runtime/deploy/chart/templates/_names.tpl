{{- define "chancery.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "chancery.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "chancery.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "chancery.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "chancery.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "chancery.rbacName" -}}
{{- default (include "chancery.fullname" .) .Values.rbac.nameOverride -}}
{{- end -}}

{{- define "chancery.chartLabel" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "chancery.labels" -}}
{{ include "chancery.selector" . }}
app.kubernetes.io/part-of: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ include "chancery.chartLabel" . }}
{{- end -}}

{{- define "chancery.selector" -}}
app.kubernetes.io/name: {{ include "chancery.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* The metadata of an object of the release: (dict "root" $ "name" NAME). "cluster" true for objects without namespace. */ -}}
{{- define "chancery.metadata" -}}
name: {{ .name }}
{{- if not .cluster }}
namespace: {{ include "chancery.namespace" .root }}
{{- end }}
labels:
  {{- include "chancery.labels" .root | nindent 2 }}
{{- with .labels }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "chancery.ambassadorID" -}}
{{- with .Values.env.AMBASSADOR_ID }}
ambassador_id: [{{ . | quote }}]
{{- end }}
{{- end -}}
