{{/* Labels that select the pods of a component. */}}
{{- define "shop.selector" -}}
app.kubernetes.io/name: shop
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "shop.labels" -}}
{{ include "shop.selector" . }}
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{/* Every container's environment: secrets are files. `database` is the secret's key. */}}
{{- define "shop.env" -}}
- {name: ALLOWED_HOSTS, value: {{ .root.Values.host | quote }}}
- {name: PUBLIC_URL, value: {{ printf "https://%s" .root.Values.host | quote }}}
- {name: PSP_URL, value: {{ .root.Values.psp.url | quote }}}
- {name: SHOP_HTTPS, value: "1"}
- {name: SHOP_DEMO, value: "0"}
- {name: DB_POOL_SIZE, value: {{ .pool | quote }}}
- {name: DATABASE_URL_FILE, value: /run/secrets/shop/{{ .database | default "database-url" }}}
{{- range $name, $key := dict "SECRET_KEY" "secret-key" "REDIS_URL" "redis-url" "CELERY_BROKER_URL" "broker-url" "PSP_KEY" "psp-key" "PSP_WEBHOOK_SECRET" "psp-webhook-secret" }}
- {name: {{ $name }}_FILE, value: /run/secrets/shop/{{ $key }}}
{{- end }}
{{- range $name, $key := .root.Values.secretFiles }}
- {name: {{ $name }}_FILE, value: /run/secrets/shop/{{ $key }}}
{{- end }}
{{- range $name, $value := .root.Values.env }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{/* What every container of the shop's image has. */}}
{{- define "shop.container" -}}
image: {{ printf "%s:%s" .root.Values.image.repository (.root.Values.image.tag | default .root.Chart.AppVersion) | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: secrets, mountPath: /run/secrets/shop, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  - {name: data, mountPath: /var/lib/shop}
{{- end }}

{{/* What every pod of the shop has. */}}
{{- define "shop.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false  # its SHOP_PORT would be taken for the shop's own variable
{{- with .root.Values.pullSecrets }}
imagePullSecrets: {{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
volumes:
  - name: secrets
    secret: {secretName: {{ .root.Values.credentials }}, defaultMode: 0440}
  - {name: tmp, emptyDir: {}}
  - {name: data, emptyDir: {}}
{{- end }}

{{/* Serves the metrics of its pod's processes on port 9101. */}}
{{- define "shop.exporter" -}}
- name: exporter
  {{- include "shop.container" . | nindent 2 }}
  command: [python, manage.py, export_metrics, --bind, 0.0.0.0, --port, "9101"]
  env:
    {{- include "shop.env" (dict "root" .root "pool" 2) | nindent 4 }}
    - {name: METRICS_FOLDER, value: /var/lib/shop/metrics}
  ports: [{name: metrics, containerPort: 9101}]
  resources: {{- toYaml .root.Values.exporter.resources | nindent 4 }}
{{- end }}

{{- define "shop.scraped" -}}
prometheus.io/scrape: "true"
prometheus.io/port: "9101"
{{- end }}

{{/* Pods of a component on different machines where there are some. */}}
{{- define "shop.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "shop.selector" . | nindent 8 }}
{{- end }}
