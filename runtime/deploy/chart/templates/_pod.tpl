{{- /* The pod template: (dict "root" $ "labels" LABELS "image" IMAGE "envRaw" RAW). */ -}}
{{- define "chancery.pod" -}}
{{- $ := .root -}}
metadata:
  labels:
    {{- toYaml .labels | nindent 4 }}
    {{- with $.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ sha256sum $.Values.ambassadorConfig }}
    {{- with $.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "chancery.serviceAccountName" $ }}
  {{- with $.Values.terminationGracePeriodSeconds }}
  terminationGracePeriodSeconds: {{ . }}
  {{- end }}
  {{- with $.Values.restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  {{- with $.Values.security.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $.Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  dnsPolicy: {{ $.Values.dnsPolicy }}
  hostNetwork: {{ $.Values.hostNetwork }}
  {{- with $.Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
  - name: chancery
    image: {{ .image | quote }}
    imagePullPolicy: {{ $.Values.image.pullPolicy }}
    args: [entrypoint]
    env:
    {{- if not (hasKey $.Values.env "AMBASSADOR_NAMESPACE") }}
    - name: AMBASSADOR_NAMESPACE
      {{- if $.Values.namespace.name }}
      value: {{ $.Values.namespace.name | quote }}
      {{- else }}
      valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
      {{- end }}
    {{- end }}
    {{- $env := dict "HOME" "/tmp" "CHANCERY_SHUTDOWN_GRACE" "30s" "CHANCERY_STATE_DIR" "/var/lib/chancery" }}
    {{- if $.Values.scope.singleNamespace }}
    {{- $_ := set $env "AMBASSADOR_SINGLE_NAMESPACE" "YES" }}
    {{- end }}
    {{- if $.Values.admissionWebhook.create }}
    {{- $_ := set $env "CHANCERY_WEBHOOK_ADDRESS" "0.0.0.0:9443" }}
    {{- end }}
    {{- if $.Values.apiext.inProcess }}
    {{- $env = merge $env (dict "CHANCERY_APIEXT_ADDRESS" "0.0.0.0:9444" "CHANCERY_APIEXT_SERVICE" "chancery-apiext") }}
    {{- end }}
    {{- range $name, $value := merge (deepCopy $.Values.env) $env }}
    - name: {{ $name }}
      value: {{ $value | toString | quote }}
    {{- end }}
    {{- with .envRaw }}
    {{- if kindIs "string" . }}
    {{- . | trim | nindent 4 }}
    {{- else }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- end }}
    ports:
    {{- range $.Values.service.ports }}
    - name: {{ .name }}
      containerPort: {{ int .targetPort }}
      {{- with .protocol }}
      protocol: {{ . }}
      {{- end }}
      {{- with .hostPort }}
      hostPort: {{ . }}
      {{- end }}
    {{- end }}
    - {name: admin, containerPort: 8877}
    - {name: snapshot, containerPort: 8005}
    {{- if $.Values.admissionWebhook.create }}
    - {name: webhook, containerPort: 9443}
    {{- end }}
    {{- if $.Values.apiext.inProcess }}
    - {name: apiext, containerPort: 9444}
    {{- end }}
    {{- with $.Values.startupProbe }}
    startupProbe:
      httpGet: {path: /ambassador/v0/check_alive, port: admin}
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $.Values.livenessProbe }}
    livenessProbe:
      httpGet: {path: /ambassador/v0/check_alive, port: admin}
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $.Values.readinessProbe }}
    readinessProbe:
      httpGet: {path: /ambassador/v0/check_ready, port: admin}
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $.Values.lifecycle }}
    lifecycle:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $.Values.security.containerSecurityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $.Values.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    volumeMounts:
    - {name: tmp, mountPath: /tmp}
    - {name: state, mountPath: /var/lib/chancery}
    {{- if $.Values.ambassadorConfig }}
    - {name: config, mountPath: /ambassador/ambassador-config, readOnly: true}
    {{- end }}
    {{- with $.Values.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $.Values.sidecarContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with $.Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $.Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $.Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $.Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumes:
  - name: tmp
    emptyDir: {}
  # The last good state, for a container that starts again while the API server is away.
  - name: state
    emptyDir: {}
  {{- if $.Values.ambassadorConfig }}
  - name: config
    configMap:
      name: {{ include "chancery.fullname" $ }}-file-config
      items: [{key: ambassadorConfig, path: ambassador-config.yaml}]
  {{- end }}
  {{- with $.Values.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "chancery.image" -}}
{{- $repository := default .Values.defaultImageRepository .Values.image.repository -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
