-- Health of an Engine or a Profile, from its conditions. Needs no library of Lua.

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
local order = { { "Stalled", "Degraded" }, { "Reconciling", "Progressing" }, { "Ready", "Healthy" } }
for _, pair in ipairs(order) do
  local condition = conditions[pair[1]]
  if condition ~= nil and condition.status == "True" then
    return answer(pair[2], condition.message)
  end
end
return answer("Progressing", "no condition is true yet")
