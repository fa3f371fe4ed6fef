import { type RedisClient, Script } from '../../redis/index.ts';

/** One claim: the key of the message, and the position that asks for it, as short text. */
export interface Claim {
  readonly key: string;
  /** Claims of one bucket share a slot. */
  readonly bucket: string;
  readonly position: string;
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

/** For each claim, in order: true when its position is the winner. Claims of one key are decided in order. */
export async function decide(
  client: RedisClient,
  claims: readonly Claim[],
  keptMs: number,
): Promise<readonly boolean[]> {
  const won = new Array<boolean>(claims.length).fill(false);
  await Promise.all(
    groupsOf(claims, client.isCluster).map(async (group) => {
      const keys = group.map((index) => claims[index]?.key ?? '');
      const positions = group.map((index) => claims[index]?.position ?? '');
      const answers = String(await CLAIM.run(client, keys, [String(keptMs), ...positions]));
      for (const [i, index] of group.entries()) won[index] = answers[i] === '1';
    }),
  );
  return won;
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
