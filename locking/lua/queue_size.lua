-- Returns the number of waiting ids, the number in flight, and the earliest time in ms at which an
-- id is due or its claim expires, "" if there is none.

-- @queue

recover()
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local back = redis.call('ZRANGE', IN_FLIGHT, 0, 0, 'WITHSCORES')[2]
if back and (not first or tonumber(back) < tonumber(first)) then
  first = back
end
return {redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', IN_FLIGHT), first or ''}
