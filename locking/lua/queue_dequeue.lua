-- Remove a waiting id, unless it was rescheduled since the caller read it.
--
-- ARGV[1] id   ARGV[2] its due time in ms as the caller read it
--
-- Returns 1 if it was removed, else 0.

-- @queue

recover()
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or -1) ~= tonumber(ARGV[2]) then
  return 0
end
return redis.call('ZREM', KEYS[1], ARGV[1])
