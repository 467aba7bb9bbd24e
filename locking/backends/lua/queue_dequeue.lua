-- Takes one waiting id out, unless it was rescheduled since it was read.
--
-- ARGV[1] id   ARGV[2] ms at which it was due when it was read
--
-- Returns 1 if it was taken out, else 0.

-- @queue

recover()
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or -1) ~= tonumber(ARGV[2]) then
  return 0
end
return redis.call('ZREM', KEYS[1], ARGV[1])
