-- Enters ids; one that is in the queue already, waiting or in flight, stays as it is.
--
-- ARGV[1] delay in ms   ARGV[2] "1" to give known ids the new time, "0" not to   ARGV[3...] ids
--
-- Returns how many ids were entered or moved.

-- @queue

local changed = 0
for i = 3, #ARGV do
  local id = ARGV[i]
  local known = redis.call('ZSCORE', KEYS[1], id) or redis.call('ZSCORE', KEYS[2], id)
  if not known or ARGV[2] == '1' then
    redis.call('ZREM', KEYS[2], id)
    redis.call('ZADD', KEYS[1], now + ARGV[1], id)
    changed = changed + 1
  end
end
return changed
