-- Which commands a rollout can be given now. Needs no library of Lua.

local status = obj.status or {}
local rollout = status.rollout or {}
local annotations = obj.metadata.annotations or {}
local asked = (obj.spec or {}).rollout or {}

-- The first revision has nothing to be compared with, or to be rolled back to.
local canary = rollout.stable and rollout.canary
local proposed = rollout.proposed and rollout.proposed.planHash
local campaign = status.drift and status.drift.proposal
local is_paused = asked.paused == true or (canary ~= nil and annotations["slipway.dev/pause"] == canary)

-- Whether the plan of the spec was given up: rolled back, or serving pods made room for it in vain.
local function is_given_up()
  for _, condition in ipairs(status.conditions or {}) do
    if condition.type == "Stalled" and condition.status == "True" then
      if condition.reason == "RolledBack" then
        return true
      end
      return rollout.capacity ~= nil and rollout.capacity.drainedInVain ~= nil and canary ~= nil
    end
  end
  return false
end

local function action(is_possible, icon)
  return { disabled = not is_possible, iconClass = "fa fa-fw fa-" .. icon }
end

return {
  approve = action(proposed ~= nil or campaign ~= nil, "check"),
  promote = action(canary ~= nil, "forward"),
  abort = action(canary ~= nil or proposed ~= nil, "stop"),
  retry = action(is_given_up(), "redo"),
  pause = action(canary ~= nil and not is_paused, "pause"),
  resume = action(is_paused, "play"),
}
