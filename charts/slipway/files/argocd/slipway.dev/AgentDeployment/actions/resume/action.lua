-- Resumes a paused rollout. Where Git has spec.rollout.paused, it comes back with the next synchronization.
local annotations = obj.metadata.annotations
if annotations ~= nil and annotations["slipway.dev/pause"] ~= nil then
  annotations["slipway.dev/pause"] = nil
  -- An empty table becomes an empty list, for which Argo CD keeps the annotations as they were.
  if next(annotations) == nil then
    obj.metadata.annotations = nil
  end
end
local rollout = (obj.spec or {}).rollout
if rollout ~= nil and rollout.paused == true then
  rollout.paused = false
end
return obj
