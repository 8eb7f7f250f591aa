{{/* The DaemonSet of agents with real cards, or with invented ones for trials: "name", "label" and "invented". */}}
{{- define "tonnage.agents" -}}
{{- $values := .root.Values.agent -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name }}
  namespace: {{ $values.namespace }}
  labels: {app: {{ .name }}}
spec:
  selector:
    matchLabels: {app: {{ .name }}}
  updateStrategy:
    type: RollingUpdate
    # The new agent serves before the old one ends. Without that a node would offer nothing for some seconds, and
    # kubelets fail pods for good that come in such a moment.
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  template:
    metadata:
      labels: {app: {{ .name }}}
      annotations:                         # a changed configuration makes new pods
        tonnage.io/configuration: {{ dict "devices" $values.devices "nodes" $values.nodeConfig "cards" $values.inventedCards | toJson | sha256sum | trunc 16 | quote }}
    spec:
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
      {{- range . }}
      - {name: {{ . }}}
      {{- end }}
      {{- end }}
      serviceAccountName: tonnage-agent
      priorityClassName: system-node-critical
      nodeSelector: {tonnage.io/gpu-agent: {{ .label | quote }}}
      tolerations:
      - {operator: Exists}
      {{- if and $values.runtimeClassName (not .invented) }}
      runtimeClassName: {{ $values.runtimeClassName }}   # it brings NVML into the container
      {{- end }}
      terminationGracePeriodSeconds: 10
      securityContext:
        runAsUser: 0                    # the kubelet's sockets are root's
        seccompProfile: {type: RuntimeDefault}
      {{- if not .invented }}
      initContainers:
      # HAMi-core's library, which limits containers, from HAMi's image. The agent installs it on the node.
      - name: library
        image: {{ $values.libraryImage }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        command: [/bin/sh, -c, 'cp "$(ls -t /k8s-vgpu/lib/nvidia/libvgpu.so* | head -n 1)" /library/libvgpu.so']
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
        volumeMounts:
        - {name: library, mountPath: /library}
        resources:
          requests: {cpu: 10m, memory: 16Mi}
          limits: {memory: 64Mi}
      {{- end }}
      containers:
      - name: agent
        image: {{ include "tonnage.image" .root }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        args:
        - agent
        {{- if .invented }}
        - --fake=/config/cards.yaml
        {{- else }}
        - --device-config-file=/config/device-config.yaml
        - --node-config-file=/config/config.json
        - --library=/library/libvgpu.so
        {{- end }}
        - --host-root=/host
        - --metrics-bind-address=:9394
        {{- range $values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        env:
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        {{- if not .invented }}
        - {name: NVIDIA_VISIBLE_DEVICES, value: all}
        - {name: NVIDIA_DRIVER_CAPABILITIES, value: utility}
        {{- end }}
        ports:
        - {name: http, containerPort: 9394}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          # What containers leave in their folders is of any owner and mode, and is removed all the same.
          capabilities: {drop: [ALL], add: [DAC_OVERRIDE, FOWNER]}
        # Ready is an agent whose list of cards the kubelet reads: an update waits for that.
        {{- include "tonnage.probes" (dict "port" "http") | nindent 8 }}
        volumeMounts:
        - {name: device-plugins, mountPath: /var/lib/kubelet/device-plugins}
        - {name: pod-resources, mountPath: /var/lib/kubelet/pod-resources, readOnly: true}
        - {name: vgpu, mountPath: /host/usr/local/vgpu}
        - {name: lock, mountPath: /host/tmp/vgpulock}
        {{- if not .invented }}
        - {name: library, mountPath: /library, readOnly: true}
        {{- end }}
        - {name: config, mountPath: /config, readOnly: true}
        resources: {{ toJson $values.resources }}
      volumes:
      - {name: device-plugins, hostPath: {path: /var/lib/kubelet/device-plugins, type: Directory}}
      - {name: pod-resources, hostPath: {path: /var/lib/kubelet/pod-resources, type: Directory}}
      - {name: vgpu, hostPath: {path: /usr/local/vgpu, type: DirectoryOrCreate}}
      - {name: lock, hostPath: {path: /tmp/vgpulock, type: DirectoryOrCreate}}
      {{- if not .invented }}
      - {name: library, emptyDir: {}}
      {{- end }}
      - {name: config, configMap: {name: {{ .name }}}}
{{- end -}}
