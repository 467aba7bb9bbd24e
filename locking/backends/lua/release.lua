-- Gives the lock to the next in line, or gives up waiting for it.
--
-- ARGV[1] holder "token:owner"   ARGV[2] its fence, "0" if it never got one
-- ARGV[3] the waiter that it was in the queue
--
-- Returns 1 released; 2 it is not the caller's, but the fence counter says that it was: the answer
-- to a release that was carried out before and whose reply was lost; 0 it is not the caller's.

if redis.call('GET', KEYS[1]) == ARGV[2] .. ':' .. ARGV[1] and redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end

-- @common
-- @mutex

local holder = ARGV[1]
if belongs_to(redis.call('GET', KEYS[1]), holder) then
  if ARGV[2] == '0' then
    redis.call('DEL', wake_list(holder)) -- granted while the caller was giving up
  end
  pass_on(nil)
  return 1
end
if ARGV[2] == '0' then
  leave_queue(ARGV[3], holder)
  return 0
end
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
return last >= tonumber(ARGV[2]) and 2 or 0
