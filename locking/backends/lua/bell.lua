-- Push to the bell of a process, a list that it pops with the wake-up lists of its waiters.
--
-- KEYS[1] the bell

redis.call('RPUSH', KEYS[1], '1')
redis.call('PEXPIRE', KEYS[1], 1000)
return 1
