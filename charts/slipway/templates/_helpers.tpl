{{- /*
Values of a release that was installed before a key existed lack it (`helm upgrade --reuse-values`). So no template asks
for a key below one that may be missing, and the configuration leaves out what is missing or empty: the operator has the
defaults that values.yaml shows.
*/ -}}
{{- define "slipway.given" -}}
{{- $given := dict }}
{{- range $key, $value := . }}
{{- if $value }}
{{- $_ := set $given $key $value }}
{{- end }}
{{- end }}
{{- toJson $given }}
{{- end }}

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

{{/* An image of this release: a repository with the tag of all, or a reference with a digest as it is. */}}
{{- define "slipway.image" -}}
{{- $root := index . 0 }}{{- $image := index . 1 -}}
{{- if contains "@" $image }}{{ $image }}{{ else }}{{ printf "%s:%s" $image ($root.Values.image.tag | default $root.Chart.AppVersion) }}{{ end }}
{{- end }}
