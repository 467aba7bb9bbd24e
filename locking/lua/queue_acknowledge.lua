-- End claims after the work is done.   ARGV pairs: id, expiry of its claim in ms
--
-- Returns how many claims were still the caller's: neither taken over nor rescheduled.

-- @queue

local ended = 0
for i = 1, #ARGV, 2 do
  if tonumber(redis.call('ZSCORE', IN_FLIGHT, ARGV[i]) or 0) == tonumber(ARGV[i + 1]) then
    ended = ended + redis.call('ZREM', IN_FLIGHT, ARGV[i])
  end
end
return ended
