-- Keeps the canary at its step. Harm still rolls it back.
obj.metadata.annotations = obj.metadata.annotations or {}
obj.metadata.annotations["slipway.dev/pause"] = obj.status.rollout.canary
return obj
