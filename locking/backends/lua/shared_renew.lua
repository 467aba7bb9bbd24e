-- Extend a lease of the shared lock; arguments and answers as in renew.lua.

-- @common
-- @shared

local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends then
  return 0
end
if ARGV[3] == '0' and ends - now_ms > tonumber(ARGV[2]) then
  return 2
end
set_expiry(ARGV[1], ARGV[2])
return 1
