import { type RedisClient, Script } from '../../redis/index.ts';

/** One claim: the key of the message, and the position that asks for it, as short text. */
export interface Claim {
  readonly key: string;
  /** Claims of one bucket share a slot. */
  readonly bucket: string;
  readonly position: string;
  /** Of a rejected event: the key of the rejected ones of its message, in the same bucket. */
  readonly rejectedKey?: string;
  /** The same of a claim that counts only where there is a rejected one. */
  readonly afterRejectedKey?: string;
}

/** Claims of one script at most, so that no other client of the server waits long for it. */
const CLAIMS_A_CALL = 1_000;

/**
 * For each key the value that came first, and keeps it for `ARGV[1]` ms: a digit per key, 1 where that is the value
 * given. Redis looks once, at the start, whether a script may take memory, so a full server takes none of them.
 */
const CLAIM = new Script(`
local call, args, keptMs, answers = redis.call, ARGV, ARGV[1], {}
for i, key in ipairs(KEYS) do
  local value = args[i + 1]
  local winner = call('SET', key, value, 'NX', 'GET', 'PX', keptMs)
  answers[i] = (not winner or winner == value) and '1' or '0'
end
return table.concat(answers)
`);

/**
 * The same where claims of rejected events are among them: each claim has two keys, of its message and of the rejected
 * ones of it, and `!`, which no value begins with, before that of a rejected event, `?` before that of one that counts only
 * behind a rejected one. Most batches have none, and no need of it.
 */
const CLAIM_WITH_REJECTED = new Script(`
local call, args, keptMs, answers = redis.call, ARGV, ARGV[1], {}
for i = 1, #KEYS / 2 do
  local key, value, winner = KEYS[2 * i - 1], args[i + 1], false
  if string.sub(value, 1, 1) == '!' then
    value = string.sub(value, 2)
    winner = call('GET', KEYS[2 * i]) or call('GET', key)
    if not winner then call('SET', KEYS[2 * i], value, 'PX', keptMs) end
  elseif string.sub(value, 1, 1) == '?' and call('EXISTS', KEYS[2 * i]) == 0 then
    winner = '?'
    value = ''
  else
    if string.sub(value, 1, 1) == '?' then value = string.sub(value, 2) end
    winner = call('SET', key, value, 'NX', 'GET', 'PX', keptMs)
  end
  answers[i] = (not winner or winner == value) and '1' or '0'
end
return table.concat(answers)
`);

/** For each claim, in order: true when its position is the winner. Claims of one key are decided in order. */
export async function decide(
  client: RedisClient,
  claims: readonly Claim[],
  keptMs: number,
): Promise<readonly boolean[]> {
  const won = new Array<boolean>(claims.length).fill(false);
  await Promise.all(
    groupsOf(claims, client.isCluster).map(async (group) => {
      const answers = await run(
        client,
        group.flatMap((index) => claims[index] ?? []),
        keptMs,
      );
      for (const [i, index] of group.entries()) won[index] = answers[i] === '1';
    }),
  );
  return won;
}

async function run(client: RedisClient, claims: readonly Claim[], keptMs: number): Promise<string> {
  if (claims.every((claim) => claim.rejectedKey === undefined && claim.afterRejectedKey === undefined)) {
    const positions = claims.map(({ position }) => position);
    const keys = claims.map(({ key }) => key);
    return String(await CLAIM.run(client, keys, [String(keptMs), ...positions]));
  }
  const keys = claims.flatMap(({ key, rejectedKey, afterRejectedKey }) => [
    key,
    rejectedKey ?? afterRejectedKey ?? key,
  ]);
  const values = claims.map((claim) => `${markOf(claim)}${claim.position}`);
  return String(await CLAIM_WITH_REJECTED.run(client, keys, [String(keptMs), ...values]));
}

function markOf({ rejectedKey, afterRejectedKey }: Claim): string {
  if (rejectedKey !== undefined) return '!';
  return afterRejectedKey === undefined ? '' : '?';
}

/** Indexes of claims that one script may decide: on one server any, on a cluster those of one bucket. */
function groupsOf(claims: readonly Claim[], byBucket: boolean): readonly (readonly number[])[] {
  const full: number[][] = [];
  const open = new Map<string, number[]>();
  for (const [index, { bucket }] of claims.entries()) {
    const name = byBucket ? bucket : '';
    const group = open.get(name);
    if (group === undefined || group.length === CLAIMS_A_CALL) {
      const fresh = [index];
      open.set(name, fresh);
      full.push(fresh);
    } else group.push(index);
  }
  return full;
}
