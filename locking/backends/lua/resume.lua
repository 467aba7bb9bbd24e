-- Take over a lease under the name of another holder, with its fencing token.
--
-- ARGV[1] holder "token:owner"   ARGV[2] the new holder   ARGV[3] lease in ms   ARGV[4] fence
--
-- Returns 1 taken over; 0 not that holder's any more.

local value = redis.call('GET', KEYS[1])
-- The new holder's already: an earlier try has succeeded, and its reply was lost.
if value ~= ARGV[4] .. ':' .. ARGV[1] and value ~= ARGV[4] .. ':' .. ARGV[2] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[4] .. ':' .. ARGV[2], 'PX', ARGV[3])
return 1
