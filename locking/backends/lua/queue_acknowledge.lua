-- Ends claims: the work on these ids is done.   ARGV id, ms at which its claim ends, and so on
--
-- Returns how many claims were still the caller's: not taken over by another, nor rescheduled.

-- @queue

local ended = 0
for i = 1, #ARGV, 2 do
  if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[i]) or 0) == tonumber(ARGV[i + 1]) then
    ended = ended + redis.call('ZREM', KEYS[2], ARGV[i])
  end
end
return ended
