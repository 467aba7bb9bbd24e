-- Read or change the number of a semaphore's permits.
--
-- ARGV[1] the number that the handle was made with   ARGV[2] the new number, "" to read only
--
-- Returns {permits, those taken}.  A changed number holds for all handles, and without an end: it is
-- a setting, not a trace of somebody's work.

-- @common
-- @shared

if ARGV[2] ~= '' then
  redis.call('SET', KEYS[1] .. ':permits', ARGV[2])
end
admit(nil)
local taken = 0
for _, holder in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  taken = taken + permits_of(holder)
end
return {tonumber(resized() or ARGV[1]), taken}
