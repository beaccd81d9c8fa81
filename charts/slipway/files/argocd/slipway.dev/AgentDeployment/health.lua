-- Health of an AgentDeployment, from its conditions. Needs no library of Lua.
-- Degraded ends a synchronization, so nothing that was said of an earlier generation counts.

local function answer(status, message)
  return { status = status, message = message }
end

if obj.metadata.deletionTimestamp ~= nil then
  return answer("Progressing", "it is being deleted")
end
local status = obj.status or {}
if status.observedGeneration == nil then
  return answer("Progressing", "the operator has not seen it yet")
end
if status.observedGeneration ~= obj.metadata.generation then
  return answer("Progressing", "the operator has not seen generation " .. obj.metadata.generation .. " yet")
end

local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

-- The message of a condition that is true. An invalid annotation is told beside it, because it has no health of its own.
local function holds(name)
  local condition = conditions[name]
  if condition == nil or condition.status ~= "True" then
    return nil
  end
  local invalid = conditions.CommandInvalid
  if invalid ~= nil and invalid.status == "True" then
    return condition.message .. "; " .. invalid.message
  end
  return condition.message
end

local stalled = holds("Stalled")
if stalled ~= nil then
  return answer("Degraded", stalled)
end
local suspended = holds("Suspended")
if suspended ~= nil then
  return answer("Suspended", suspended)
end
local reconciling = holds("Reconciling")
if reconciling ~= nil then
  return answer("Progressing", reconciling)
end
if status.stage ~= "Serving" then
  return answer("Progressing", "stage " .. (status.stage or "unknown"))
end
local ready = holds("Ready")
if ready ~= nil then
  return answer("Healthy", ready)
end
local unready = conditions.Ready and conditions.Ready.message or "no condition says whether it serves"
-- No pod is asked for, and none is missing.
if status.wantedPods == 0 then
  return answer("Healthy", unready)
end
return answer("Degraded", unready)
