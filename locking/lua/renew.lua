-- Extend a lease that is still the caller's; never make a lost one anew.
--
-- KEYS[1] lock
-- ARGV[1] holder "token:owner"   ARGV[2] lease in ms, counted from now
-- ARGV[3] "1" to set the end even if that shortens the lease, "0" only to extend it
--
-- Returns 1 renewed; 2 the caller's, but it ends later already; 0 not the caller's.

local value = redis.call('GET', KEYS[1])
if not value or string.match(value, ':(.*)$') ~= ARGV[1] then
  return 0
end
if ARGV[3] == '0' and redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then
  return 2
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
