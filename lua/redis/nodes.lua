-- Which gateways are there. KEYS: their set. ARGV: this gateway, microseconds after which one is gone. Returns: how many.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - tonumber(ARGV[2])))
-- A clock that went back leaves none from the future behind.
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('%.0f', now + tonumber(ARGV[2])), '+inf')
redis.call('PEXPIRE', KEYS[1], math.ceil(tonumber(ARGV[2]) / 1000))
return { redis.call('ZCARD', KEYS[1]) }
