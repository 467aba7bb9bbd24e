-- Acquire the shared lock, or join its queue; arguments and answers as in acquire.lua.

-- @common
-- @shared

local holder, lease_ms = ARGV[1], ARGV[2]
local waiter = ARGV[3] .. lease_ms .. ':' .. holder

-- Handles with different numbers of permits would each enforce its own, unless it was changed.
local inside = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
local theirs = inside and string.match(inside, '^s(%d+)')
if theirs and not resized() and theirs ~= string.match(holder, '^s(%d+)') then
  return redis.error_reply('PERMITS ' .. theirs .. ' are those of the holders')
end

-- Already a holder: an earlier try was granted, but its reply or the wake-up was lost.  No client
-- has seen the fence of that grant, so a new one is safe.
if redis.call('ZSCORE', KEYS[1], holder) then
  redis.call('DEL', wake_list(holder))
  return {tonumber(grant(holder, lease_ms))}
end

redis.call('DEL', wake_list(holder)) -- as in acquire.lua
local look_again_ms
for _, heir in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local silent, after_ms = put_back_if_silent(heir, holder)
  if silent then
    redis.call('ZREM', KEYS[1], heir)
  end
  look_again_ms = after_ms or look_again_ms
end

if ARGV[4] == '1' then
  enqueue(waiter)
end
local fence = admit(holder)
if not fence and ARGV[4] == '0' then
  leave_queue(waiter, holder)
  admit(nil) -- it may have blocked others
  if redis.call('EXISTS', KEYS[3]) == 0 and may_enter(holder) then
    fence = grant(holder, lease_ms)
  end
end
if fence then
  return {tonumber(fence)}
end
local first_end = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or now_ms
local mode, after_ms = first_waiter()
look_again_ms = look_again_ms or (not mode and after_ms)
return {0, look_again_ms or math.max(0, first_end - now_ms), place_of(waiter), now_us, last_fence()}
