-- Take due ids, the longest due first.
--
-- ARGV[1] largest number of ids   ARGV[2] length of their claims in ms
--
-- Returns triples: id, due time in ms, expiry of the claim in ms.

-- @queue

recover()
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
local claim_ends = string.format('%.0f', now + ARGV[2])
local taken = {}
for i = 1, #due, 2 do
  redis.call('ZREM', KEYS[1], due[i])
  redis.call('ZADD', IN_FLIGHT, claim_ends, due[i])
  taken[#taken + 1] = due[i]
  taken[#taken + 1] = due[i + 1]
  taken[#taken + 1] = claim_ends
end
return taken
