import type { CountDocument, DocumentRange } from '@tributary/core';
import type { RedisClient, RedisConnection } from '../../redis/index.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Fields of a hash per call: a larger one would block the server for other clients. */
const FIELDS_PER_CALL = 2_000;

/**
 * The volume counters of release 0.2.0, which has other keys, in a slot for each partition of the accepted and rejected
 * events. Its counts expire after 33 days; the last uses of keys are kept.
 */
export class EarlierVolume {
  readonly #connection: RedisConnection;
  readonly #prefix: string;

  constructor(connection: RedisConnection, prefix: string) {
    this.#connection = connection;
    this.#prefix = prefix;
  }

  /** Documents of the kinds `volume_0_2` and `runs_0_2`; of others none. */
  async documents({ kind, workspaceId, from, to }: DocumentRange): Promise<readonly CountDocument[]> {
    const documents: CountDocument[] = [];
    const add = (start: number, field: string, value: string) => {
      if (start >= from && start <= to) documents.push({ kind, workspaceId, start, field, value });
    };
    for (let day = Math.floor(from / DAY_MS); day <= Math.floor(to / DAY_MS); day++) {
      if (kind === 'volume_0_2')
        for (const [field, count] of await this.#countsOf(day, workspaceId))
          add(
            day * DAY_MS + Number.parseInt(field.charAt(0), 36) * HOUR_MS,
            field.slice(1),
            JSON.stringify({ accepted: count }),
          );
      if (kind === 'runs_0_2') {
        const key = `${this.#prefix}v:r:${day}:${workspaceId.replace('/', ':')}`;
        const counts = await this.#connection.call((client) => client.hgetall(key));
        for (const [field, count] of Object.entries(counts)) {
          const colon = field.indexOf(':');
          add(Number(field.slice(0, colon)), field.slice(colon + 1), count);
        }
      }
    }
    return documents;
  }

  /** The sorted sets with the last uses of keys. */
  async uses(): Promise<readonly string[]> {
    const partitions = await this.#partitions();
    return [`${this.#prefix}v:touched`, ...partitions.map((partition) => `${this.#tag(partition)}uses`)];
  }

  /** The counts of a workspace and day by field: a character each for the hour, the environment and the type, then the name. */
  async #countsOf(day: number, workspaceId: string): Promise<ReadonlyMap<string, number>> {
    const sums = new Map<string, number>();
    for (const partition of await this.#partitions()) {
      const hash = `${this.#tag(partition)}c:${day}:${workspaceId}`;
      for (const [field, count] of await this.#connection.call((client) => fieldsOf(client, hash)))
        sums.set(field, (sums.get(field) ?? 0) + Number(count));
    }
    return sums;
  }

  #partitions(): Promise<readonly string[]> {
    return this.#connection.call((client) => client.smembers(`${this.#prefix}v:partitions`));
  }

  #tag(partition: string): string {
    return `{${this.#prefix}v:${partition}}`;
  }
}

async function fieldsOf(client: RedisClient, hash: string): Promise<ReadonlyMap<string, string>> {
  const fields = new Map<string, string>();
  let cursor = '0';
  do {
    const [next, pairs] = await client.hscan(hash, cursor, 'COUNT', FIELDS_PER_CALL);
    // HSCAN may return a field twice.
    for (let i = 0; i < pairs.length; i += 2) fields.set(pairs[i] ?? '', pairs[i + 1] ?? '0');
    cursor = next;
  } while (cursor !== '0');
  return fields;
}
