-- Ring the bell of a process: a list that it pops together with the wake-up lists of its waiters.
--
-- KEYS[1] bell

redis.call('RPUSH', KEYS[1], '1')
redis.call('PEXPIRE', KEYS[1], 1000)
return 1
