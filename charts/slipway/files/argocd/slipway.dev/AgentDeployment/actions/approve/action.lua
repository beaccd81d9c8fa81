-- Approves the plan that waits for approval.
local proposed = obj.status.rollout.proposed.planHash
obj.metadata.annotations = obj.metadata.annotations or {}
local annotations = obj.metadata.annotations
annotations["slipway.dev/approve"] = proposed
if annotations["slipway.dev/abort"] == proposed then
  annotations["slipway.dev/abort"] = nil
end
return obj
