-- Take over a lease of the shared lock; arguments and answers as in resume.lua.
--
-- A write lease taken over by a reader lets the readers behind it in.

-- @common
-- @shared

local was_inside = redis.call('ZREM', KEYS[1], ARGV[1]) == 1
if not was_inside and not redis.call('ZSCORE', KEYS[1], ARGV[2]) then
  return 0
end
set_expiry(ARGV[2], ARGV[3])
admit(nil)
return 1
