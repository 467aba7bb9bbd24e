-- Enqueue ids; one that is already waiting or in flight keeps its time unless rescheduled.
--
-- ARGV[1] delay in ms   ARGV[2] "1" to reschedule known ids, else "0"   ARGV[3...] ids
--
-- Returns how many ids were added or moved.

-- @queue

local changed = 0
for i = 3, #ARGV do
  local id = ARGV[i]
  local known = redis.call('ZSCORE', KEYS[1], id) or redis.call('ZSCORE', IN_FLIGHT, id)
  if not known or ARGV[2] == '1' then
    redis.call('ZREM', IN_FLIGHT, id)
    redis.call('ZADD', KEYS[1], now + ARGV[1], id)
    changed = changed + 1
  end
end
return changed
