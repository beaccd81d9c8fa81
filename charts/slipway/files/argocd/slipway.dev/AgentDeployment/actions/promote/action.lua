-- Promotes the canary without waiting for a verdict.
local canary = obj.status.rollout.canary
obj.metadata.annotations = obj.metadata.annotations or {}
local annotations = obj.metadata.annotations
annotations["slipway.dev/promote"] = canary
if annotations["slipway.dev/abort"] == canary then
  annotations["slipway.dev/abort"] = nil
end
return obj
