"""The Lua scripts of the Redis store: the arithmetic of `counters`, inside Redis.

Amounts are written with `%d`, because Lua would write a large number as 1e+15.
"""

WRITE = """
local expects = ARGV[3]
if expects ~= '*' then
  local version = redis.call('HGET', KEYS[1], 'version') or ''
  if version ~= expects then return 0 end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'value', ARGV[1], 'version', ARGV[2])
if ARGV[4] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
return 1
"""

WRITE_BOUNDED = """
local most = tonumber(ARGV[4])
local function forget(name)
  redis.call('ZREM', KEYS[2], name)
  local size = tonumber(redis.call('HGET', KEYS[3], name) or '0')
  redis.call('HDEL', KEYS[3], name)
  return redis.call('HINCRBY', KEYS[3], '', string.format('%d', -size))
end
forget(KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'value', ARGV[1], 'version', ARGV[2])
if ARGV[3] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
local time = redis.call('TIME')
redis.call('ZADD', KEYS[2], tonumber(time[1]) + tonumber(time[2]) / 1000000, KEYS[1])
redis.call('HSET', KEYS[3], KEYS[1], #ARGV[1])
local total = redis.call('HINCRBY', KEYS[3], '', #ARGV[1])
while total > most do
  local oldest = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if oldest == KEYS[1] then break end
  redis.call('DEL', oldest)
  total = forget(oldest)
end
return 1
"""
"""Writes a value of a cache. If all values have too many bytes, the oldest are deleted; expired ones count, too."""

_CLOCK = """
local BUCKETS = 60
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end
local function milliseconds(seconds)
  return string.format('%d', math.max(1, math.ceil(seconds * 1000)))
end
local function bucket_of(charge, moment)
  return math.floor(moment / (charge.period / BUCKETS))
end
local function integer(number) return string.format('%d', number) end
local function plus(charge, key, field, amount)
  if redis.call('HINCRBY', key, field, integer(amount)) < 0 then redis.call('HSET', key, field, 0) end
  if charge.type == 'window' then
    redis.call('PEXPIRE', key, milliseconds(charge.period * (BUCKETS + 1) / BUCKETS))
  else
    redis.call('PEXPIRE', key, milliseconds(charge.ends - now + 60))
  end
end
local charges = cjson.decode(ARGV[1])
"""

_COUNTERS = (
    _CLOCK
    + """
local SLOT_WAIT = 1
local measure = {}

function measure.window(charge, key)
  local width = charge.period / BUCKETS
  local first = bucket_of(charge, now) - BUCKETS
  local buckets, used = {}, 0
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local bucket, amount = tonumber(fields[i]), tonumber(fields[i + 1])
    if bucket < first then
      redis.call('HDEL', key, fields[i])
    elseif amount > 0 then
      table.insert(buckets, {bucket, amount})
      used = used + amount
    end
  end
  table.sort(buckets, function(a, b) return a[1] < b[1] end)
  local resets = 0
  if #buckets > 0 then resets = (buckets[#buckets][1] + BUCKETS + 1) * width - now end
  local excess = used + charge.amount - charge.limit
  if excess <= 0 then return true, {used, 0, resets} end
  if charge.amount > charge.limit then return false, {used, -1, resets} end
  for _, bucket in ipairs(buckets) do
    excess = excess - bucket[2]
    if excess <= 0 then return false, {used, (bucket[1] + BUCKETS + 1) * width - now, resets} end
  end
end

function measure.period(charge, key)
  local used = 0
  if now < charge.ends then used = tonumber(redis.call('HGET', key, '') or '0') end
  local remaining = math.max(0, charge.ends - now)
  local resets = 0
  if used > 0 then resets = remaining end
  if used + charge.amount <= charge.limit then return true, {used, 0, resets} end
  if charge.amount > charge.limit then return false, {used, -1, resets} end
  return false, {used, remaining, resets}
end

function measure.slot(charge, key)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.6f', now))
  local used = redis.call('ZCARD', key)
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  local resets = 0
  if last[2] then resets = tonumber(last[2]) - now end
  if used < charge.limit then return true, {used, 0, resets} end
  if charge.limit <= 0 then return false, {used, -1, resets} end
  return false, {used, SLOT_WAIT, resets}
end

local function as_json(levels)
  local texts = {}
  for i, level in ipairs(levels) do texts[i] = string.format('[%d,%.6f,%.6f]', level[1], level[2], level[3]) end
  return table.concat(texts, ',')
end
"""
)

RESERVE = (
    _COUNTERS
    + """
local add = {}
function add.window(charge, key) plus(charge, key, integer(bucket_of(charge, now)), charge.amount) end
function add.period(charge, key) plus(charge, key, '', charge.amount) end
function add.slot(charge, key)
  redis.call('ZADD', key, string.format('%.6f', now + charge.ttl), charge.id)
  redis.call('PEXPIRE', key, milliseconds(charge.ttl))
end

local levels, granted = {}, true
for i, charge in ipairs(charges) do
  local fits, level = measure[charge.type](charge, KEYS[i])
  granted = granted and fits
  levels[i] = level
end
if granted then
  for i, charge in ipairs(charges) do
    add[charge.type](charge, KEYS[i])
    local _, level = measure[charge.type](charge, KEYS[i])
    levels[i] = {level[1], 0, level[3]}
  end
end
return string.format('{"granted":%s,"reserved_at":%.6f,"levels":[%s]}', tostring(granted), now, as_json(levels))
"""
)

ADJUST = (
    _COUNTERS
    + """
local reserved_at = tonumber(ARGV[3])
local remove = {}
function remove.window(charge, key)
  if charge.amount < 0 then return plus(charge, key, integer(bucket_of(charge, now)), -charge.amount) end
  local bucket = integer(bucket_of(charge, reserved_at))
  if redis.call('HEXISTS', key, bucket) == 1 then plus(charge, key, bucket, -charge.amount) end
end
function remove.period(charge, key)
  if now < charge.ends then plus(charge, key, '', -charge.amount) end
end
function remove.slot(charge, key) redis.call('ZREM', key, charge.id) end
local levels = {}
for i, charge in ipairs(charges) do
  if charge.amount ~= 0 then remove[charge.type](charge, KEYS[i]) end
  local _, level = measure[charge.type](charge, KEYS[i])
  levels[i] = {level[1], 0, level[3]}
end
return '[' .. as_json(levels) .. ']'
"""
)

RENEW = (
    _CLOCK
    + """
for i, slot in ipairs(charges) do
  redis.call('ZADD', KEYS[i], string.format('%.6f', now + slot.ttl), slot.id)
  redis.call('PEXPIRE', KEYS[i], milliseconds(slot.ttl))
end
"""
)

RECORD = """
local all, open, ttl, hour_ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local function add(key, name, counts)
  local old, sums = redis.call('HGET', key, name), {}
  if not old then return redis.call('HSET', key, name, counts) end
  local numbers = string.gmatch(old, '%d+')
  for count in string.gmatch(counts, '%d+') do
    table.insert(sums, string.format('%d', tonumber(numbers()) + tonumber(count)))
  end
  redis.call('HSET', key, name, table.concat(sums, ','))
end
for i = 0, (#ARGV - 2) / 9 - 1 do
  local row_key, sums_key, hour_key, times_key = unpack(KEYS, 3 + 4 * i, 6 + 4 * i)
  local id, moment, finished, row, name, counts, hour_name, hour_counts, times = unpack(ARGV, 3 + 9 * i, 11 + 9 * i)
  local is_new = redis.call('EXISTS', row_key) == 0
  if is_new or redis.call('ZSCORE', open, id) then
    redis.call('SET', row_key, row, 'PX', ttl)
    redis.call('ZADD', all, moment, id)
    if finished == '1' then
      redis.call('ZREM', open, id)
      local fields = cjson.decode(counts)
      for j = 1, #fields, 2 do
        if fields[j + 1] ~= 0 then
          redis.call('HINCRBY', sums_key, fields[j] .. ' ' .. name, string.format('%d', fields[j + 1]))
        end
      end
      add(hour_key, hour_name, hour_counts)
      redis.call('EXPIRE', hour_key, hour_ttl)
      for time in string.gmatch(times, '[^,]+') do
        redis.call('HINCRBY', times_key, hour_name .. ' ' .. time, 1)
        redis.call('EXPIRE', times_key, hour_ttl)
      end
    else
      redis.call('ZADD', open, moment, id)
    end
  end
end
local oldest = tonumber(ARGV[#ARGV - 7]) - ttl / 1000
redis.call('ZREMRANGEBYSCORE', all, '-inf', oldest)
redis.call('ZREMRANGEBYSCORE', open, '-inf', oldest)
"""

ALL = (WRITE, WRITE_BOUNDED, RESERVE, ADJUST, RENEW, RECORD)
