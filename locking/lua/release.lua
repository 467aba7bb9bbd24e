-- Release the lock to the next waiter, or leave the queue.
--
-- KEYS[1] lock
-- ARGV[1] holder "token:owner"   ARGV[2] its fence, "0" if it has none
-- ARGV[3] its entry in the queue, "" if it has a fence
--
-- Returns 1 released; 0 not the caller's; 2 not the caller's, but by the fence counter it was: an
-- earlier release may have succeeded and lost its answer.

if redis.call('GET', KEYS[1]) == ARGV[2] .. ':' .. ARGV[1] and redis.pcall('EXISTS', KEYS[1] .. ':queue') == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end

-- @common

local holder = ARGV[1]
if belongs_to(redis.call('GET', LOCK), holder) then
  if ARGV[2] == '0' then
    soft('DEL', wake_list(holder)) -- granted while the caller left the queue
  end
  pass_on(nil)
  return 1
end
if ARGV[2] == '0' then
  leave_queue(ARGV[3], holder)
  return 0
end
return last_fence() >= tonumber(ARGV[2]) and 2 or 0
