-- Returns how many ids wait, how many are in flight, and the ms at which the first of all is due
-- or comes back, or "" if there is none.

-- @queue

recover()
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local back = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
if back and (not first or tonumber(back) < tonumber(first)) then
  first = back
end
return {redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2]), first or ''}
