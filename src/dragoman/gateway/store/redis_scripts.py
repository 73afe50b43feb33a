"""The steps of the Redis store as Lua: the arithmetic of `meters`, done where the marks are."""

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

_CLOCK = """
local SLOTS = 60
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end
local function milliseconds(seconds)
  return string.format('%d', math.max(1, math.ceil(seconds * 1000)))
end
local function slot_of(charge, moment)
  return math.floor(moment / (charge.period / SLOTS))
end
local function name_of(slot) return string.format('%d', slot) end
local function plus(charge, key, slot, amount)
  if redis.call('HINCRBY', key, slot, name_of(amount)) < 0 then redis.call('HSET', key, slot, 0) end
  if charge.type == 'window' then
    redis.call('PEXPIRE', key, milliseconds(charge.period * (SLOTS + 1) / SLOTS))
  else
    redis.call('PEXPIRE', key, milliseconds(charge.ends - now + 60))
  end
end
local charges = cjson.decode(ARGV[1])
"""
"""The number of a negative amount is written as an integer, too: Lua's own would be 1e+15 for large ones."""

_METERS = (
    _CLOCK
    + """
local SEAT_WAIT = 1
local measure = {}

function measure.window(charge, key)
  local width = charge.period / SLOTS
  local first = slot_of(charge, now) - SLOTS
  local slots, used = {}, 0
  local found = redis.call('HGETALL', key)
  for i = 1, #found, 2 do
    local slot, amount = tonumber(found[i]), tonumber(found[i + 1])
    if slot < first then
      redis.call('HDEL', key, found[i])
    elseif amount > 0 then
      table.insert(slots, {slot, amount})
      used = used + amount
    end
  end
  table.sort(slots, function(a, b) return a[1] < b[1] end)
  local resets = 0
  if #slots > 0 then resets = (slots[#slots][1] + SLOTS + 1) * width - now end
  local over = used + charge.amount - charge.limit
  if over <= 0 then return true, {used, 0, resets} end
  if charge.amount > charge.limit then return false, {used, -1, resets} end
  for _, slot in ipairs(slots) do
    over = over - slot[2]
    if over <= 0 then return false, {used, (slot[1] + SLOTS + 1) * width - now, resets} end
  end
end

function measure.total(charge, key)
  local used = 0
  if now < charge.ends then used = tonumber(redis.call('HGET', key, '') or '0') end
  local left = math.max(0, charge.ends - now)
  local resets = 0
  if used > 0 then resets = left end
  if used + charge.amount <= charge.limit then return true, {used, 0, resets} end
  if charge.amount > charge.limit then return false, {used, -1, resets} end
  return false, {used, left, resets}
end

function measure.seat(charge, key)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.6f', now))
  local used = redis.call('ZCARD', key)
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  local resets = 0
  if last[2] then resets = tonumber(last[2]) - now end
  if used < charge.limit then return true, {used, 0, resets} end
  if charge.limit <= 0 then return false, {used, -1, resets} end
  return false, {used, SEAT_WAIT, resets}
end

local function told(levels)
  local texts = {}
  for i, level in ipairs(levels) do texts[i] = string.format('[%d,%.6f,%.6f]', level[1], level[2], level[3]) end
  return table.concat(texts, ',')
end
"""
)

TAKE = (
    _METERS
    + """
local put = {}
function put.window(charge, key) plus(charge, key, name_of(slot_of(charge, now)), charge.amount) end
function put.total(charge, key) plus(charge, key, '', charge.amount) end
function put.seat(charge, key)
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
    put[charge.type](charge, KEYS[i])
    local _, level = measure[charge.type](charge, KEYS[i])
    levels[i] = {level[1], 0, level[3]}
  end
end
return string.format('{"granted":%s,"moment":%.6f,"levels":[%s]}', tostring(granted), now, told(levels))
"""
)

GIVE = (
    _METERS
    + """
local moment = tonumber(ARGV[3])
local give = {}
function give.window(charge, key)
  if charge.amount < 0 then return plus(charge, key, name_of(slot_of(charge, now)), -charge.amount) end
  local slot = name_of(slot_of(charge, moment))
  if redis.call('HEXISTS', key, slot) == 1 then plus(charge, key, slot, -charge.amount) end
end
function give.total(charge, key)
  if now < charge.ends then plus(charge, key, '', -charge.amount) end
end
function give.seat(charge, key) redis.call('ZREM', key, charge.id) end
local levels = {}
for i, charge in ipairs(charges) do
  if charge.amount ~= 0 then give[charge.type](charge, KEYS[i]) end
  local _, level = measure[charge.type](charge, KEYS[i])
  levels[i] = {level[1], 0, level[3]}
end
return '[' .. told(levels) .. ']'
"""
)

RENEW = (
    _CLOCK
    + """
for i, seat in ipairs(charges) do
  redis.call('ZADD', KEYS[i], string.format('%.6f', now + seat.ttl), seat.id)
  redis.call('PEXPIRE', KEYS[i], milliseconds(seat.ttl))
end
"""
)

RECORD = """
local all, open, kept = KEYS[1], KEYS[2], ARGV[1]
for i = 0, (#ARGV - 1) / 6 - 1 do
  local row_key, uses_key = KEYS[3 + 2 * i], KEYS[4 + 2 * i]
  local id, moment, settled, row, name, counts = unpack(ARGV, 2 + 6 * i, 7 + 6 * i)
  local is_new = redis.call('EXISTS', row_key) == 0
  if is_new or redis.call('ZSCORE', open, id) then
    redis.call('SET', row_key, row, 'PX', kept)
    redis.call('ZADD', all, moment, id)
    if settled == '1' then
      redis.call('ZREM', open, id)
      local pairs = cjson.decode(counts)
      for j = 1, #pairs, 2 do
        if pairs[j + 1] ~= 0 then
          redis.call('HINCRBY', uses_key, pairs[j] .. ' ' .. name, string.format('%d', pairs[j + 1]))
        end
      end
    else
      redis.call('ZADD', open, moment, id)
    end
  end
end
local oldest = tonumber(ARGV[#ARGV - 4]) - kept / 1000
redis.call('ZREMRANGEBYSCORE', all, '-inf', oldest)
redis.call('ZREMRANGEBYSCORE', open, '-inf', oldest)
"""

ALL = (WRITE, TAKE, GIVE, RENEW, RECORD)
