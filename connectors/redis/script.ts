/**
 * KEYS: the stream, the ids delivered. ARGV: hours to remember, length of the stream or 0, then per delivery its id,
 * type, message id and body. Adds those that were not there yet, all at once; answers how many.
 *
 * An id is noted in the same script as its entry, so neither is there without the other, and only after: an entry that
 * is refused (out of memory) leaves no note.
 */
export const ADD_ONCE = `
local seconds = tonumber(ARGV[1]) * 3600
local now = tonumber(redis.call('TIME')[1])
local added = 0
for at = 3, #ARGV, 4 do
  local id = ARGV[at]
  if seconds == 0 or not redis.call('ZSCORE', KEYS[2], id) then
    local entry = { 'id', id, 'type', ARGV[at + 1], 'message_id', ARGV[at + 2], 'body', ARGV[at + 3] }
    if ARGV[2] == '0' then
      redis.call('XADD', KEYS[1], '*', unpack(entry))
    else
      redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', unpack(entry))
    end
    if seconds > 0 then redis.call('ZADD', KEYS[2], now, id) end
    added = added + 1
  end
end
if added > 0 and seconds > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - seconds)
  redis.call('EXPIRE', KEYS[2], seconds)
end
return added
`;

/** The ids delivered lie beside the stream, under the hash tag that the stream has or is. */
export function deliveredKey(stream: string): string {
  const [, tag] = /\{([^}]+)\}/.exec(stream) ?? [];
  return tag === undefined ? `{${stream}}:delivered` : `${stream}:delivered`;
}
