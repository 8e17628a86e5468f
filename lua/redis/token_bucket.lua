-- A token bucket. KEYS: the bucket. ARGV: count, microseconds in which it comes back, burst, cost.
-- A cost of 0 only looks; one below 0 gives back. Returns: admitted (1 or 0), what is left, microseconds: of an admitted
-- request until all is there again, of a refused one until it would be admitted, -1 for never.
-- The clock is the store's own: those of gateways differ.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local count, per, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local kept = redis.call('HMGET', KEYS[1], 'n', 't')
local n, at = tonumber(kept[1]), tonumber(kept[2])
if not n or not at then
  n, at = burst, now
end
if now < at then
  -- A small step back of the clock adds nothing twice; after a large one the time counts anew.
  if at - now > 1000000 then at = now else now = at end
end
n = math.min(burst, n + (now - at) * count / per)
local admitted, wait = 1, 0
if cost > burst then
  admitted, wait = 0, -1
elseif cost > n then
  admitted, wait = 0, math.ceil((cost - n) * per / count)
else
  n = math.min(burst, n - cost)
  wait = math.ceil((burst - n) * per / count)
end
-- `..` and tostring() keep 14 digits, which are not enough for microseconds.
redis.call('HSET', KEYS[1], 'n', string.format('%.6f', n), 't', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], math.max(1000, math.ceil((burst - n) * per / count / 1000) + 1000))
return { admitted, math.floor(n), wait }
