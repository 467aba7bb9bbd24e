-- Release the shared lock or leave its queue, and admit waiters; arguments and answers as in
-- release.lua.

-- @common
-- @shared

local holder = ARGV[1]
local was_inside = redis.call('ZREM', KEYS[1], holder) == 1
if ARGV[2] == '0' then
  leave_queue(ARGV[3], holder)
end
admit(nil)
if was_inside then
  return 1
end
return ARGV[2] ~= '0' and last_fence() >= tonumber(ARGV[2]) and 2 or 0
