-- Approves the plan that waits for approval, else the campaign that is proposed after drift.
local status = obj.status
local proposed = ((status.rollout or {}).proposed or {}).planHash
obj.metadata.annotations = obj.metadata.annotations or {}
local annotations = obj.metadata.annotations
if proposed == nil then
  annotations["slipway.dev/approve-reprofiling"] = status.drift.proposal
  return obj
end
annotations["slipway.dev/approve"] = proposed
if annotations["slipway.dev/abort"] == proposed then
  annotations["slipway.dev/abort"] = nil
end
return obj
