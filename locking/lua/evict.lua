-- Take the lock from its holder and hand it to the next waiter.
--
-- KEYS[1] lock
--
-- Returns "fence:token:owner" of the holder that lost it; "" if the lock was free.

-- @common

local value = redis.call('GET', LOCK)
if value then
  soft('DEL', wake_list(holder_of(value))) -- it may not have read its grant
  pass_on(nil)
end
return value or ''
