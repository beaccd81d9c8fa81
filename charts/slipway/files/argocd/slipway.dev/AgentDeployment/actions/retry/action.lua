-- Tries the plan of the spec once more after it was rolled back. Needs no library of Lua.

local status = obj.status
local rollout = status.rollout

-- The plan that was rolled back and that the spec asks for, with its record.
local function rolled_back()
  for _, fact in ipairs(status.told or {}) do
    if fact.about == "Stalled" and fact.reason == "RolledBack" then
      for _, rejected in ipairs(rollout.rejected or {}) do
        if rejected.plan == fact.subject then
          return rejected.plan, rejected.retry, rejected.retryAnnotation
        end
      end
    end
  end
  local room = rollout.capacity
  if room ~= nil and room.drainedInVain ~= nil and rollout.canary ~= nil then
    return rollout.canary, room.drainedInVain, room.drainedInVainAnnotation
  end
  error("no plan was rolled back that the spec still asks for")
end

local plan, first, second = rolled_back()
obj.metadata.annotations = obj.metadata.annotations or {}
local annotations = obj.metadata.annotations
local used = {}
for _, token in pairs({ spec = ((obj.spec or {}).rollout or {}).retry, annotations = annotations["slipway.dev/retry"],
                        first = first, second = second }) do
  used[token] = true
end
-- A value counts once.
local token, number = plan, 1
while used[token] do
  number = number + 1
  token = plan .. "/" .. number
end
annotations["slipway.dev/retry"] = token
if annotations["slipway.dev/abort"] == plan then
  annotations["slipway.dev/abort"] = nil
end
return obj
