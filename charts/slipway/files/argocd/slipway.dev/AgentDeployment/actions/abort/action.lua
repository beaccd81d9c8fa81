-- Rolls the canary back, or declines the plan that waits for approval.
local rollout = obj.status.rollout
obj.metadata.annotations = obj.metadata.annotations or {}
obj.metadata.annotations["slipway.dev/abort"] = rollout.canary or rollout.proposed.planHash
return obj
