-- Lengthens a stay inside the shared; arguments and answers are renew.lua's.

-- @common
-- @shared

local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends then
  return 0
end
if ARGV[3] == '0' and ends - now_ms > tonumber(ARGV[2]) then
  return 2
end
set_end(ARGV[1], ARGV[2])
return 1
