-- Revoke the shared lock from all holders and admit the next waiters.
--
-- Returns a list of the revoked "0:token:owner"; empty if the lock was free.

-- @common
-- @shared

local evicted = redis.call('ZRANGE', KEYS[1], 0, -1)
redis.call('DEL', KEYS[1])
for _, holder in ipairs(evicted) do
  redis.call('DEL', wake_list(holder)) -- it may not have read its grant
end
admit(nil)
for i, holder in ipairs(evicted) do
  evicted[i] = '0:' .. holder
end
return evicted
