{{- define "slipway.selectorLabels" -}}
app.kubernetes.io/name: slipway-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "slipway.labels" -}}
{{ include "slipway.selectorLabels" . }}
app.kubernetes.io/part-of: slipway
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "slipway.name" -}}
{{- if contains "slipway" .Release.Name }}{{ .Release.Name | trunc 50 }}{{ else }}{{ printf "%s-slipway" .Release.Name | trunc 50 }}{{ end }}-operator
{{- end }}

{{- define "slipway.tag" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
