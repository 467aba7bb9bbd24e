-- Revoke the lock from its holder and hand it to the next waiter.
--
-- Returns a list of the revoked "fence:token:owner"; empty if the lock was free.

-- @common
-- @mutex

local value = redis.call('GET', KEYS[1])
if value then
  redis.call('DEL', wake_list(holder_of(value))) -- it may not have read its grant
  pass_on(nil)
end
return value and {value} or {}
