import {
  type DedupeClaim,
  type HistoryEntry,
  NO_LOGGER,
  NO_METRICS,
  type Profile,
  type ProfileChange,
  type ProfileStore,
  type ProfileWrite,
  Unavailable,
} from '@tributary/core';
import {
  importClaims,
  missingClaims,
  openRedisDeduplicator,
} from '@tributary/infra/adapters/deduplicator/redis';
import { openSqliteDeduplicator, storedClaims } from '@tributary/infra/adapters/deduplicator/sqlite';
import { openElasticsearchHistory, openHistoryImport } from '@tributary/infra/adapters/history/elasticsearch';
import { dayOf, openSqliteHistory, openStoredHistory } from '@tributary/infra/adapters/history/sqlite';
import {
  openElasticsearchProfileStore,
  ProfileImport,
} from '@tributary/infra/adapters/profile-store/elasticsearch';
import { openProfileExport, openSqliteProfileStore } from '@tributary/infra/adapters/profile-store/sqlite';
import { RedisConnection } from '@tributary/infra/adapters/redis';
import {
  compareVolume,
  holdsVolume,
  importVolume,
  openRedisVolumeCounters,
} from '@tributary/infra/adapters/volume-counters/redis';
import { openSqliteVolumeCounters, openStoredVolume } from '@tributary/infra/adapters/volume-counters/sqlite';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { temporaryFolder } from '../../helpers/folder.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const MESSAGE = { workspaceId: 'w', environment: 'production' } as const;

/** What one store holds is in the other, and both decide the same from then on. */
describe.skipIf(engines() === undefined)('A store that is moved', () => {
  async function places() {
    const folder = await temporaryFolder();
    const prefix = freshPrefix();
    onTestFinished(async () => {
      await folder.remove();
      await removePrefix(prefix);
    });
    const found = engines();
    if (found === undefined) throw new Error('there are no engines');
    return { folder: folder.path, prefix, ...found };
  }

  it('decides about message ids as before', async () => {
    const { folder, prefix, redisUrl: url } = await places();
    const claim = (messageId: string, offset: number, changes: Partial<DedupeClaim> = {}): DedupeClaim => {
      const topic = offset % 2 === 0 ? 'events.production' : 'events.development';
      return {
        ...MESSAGE,
        messageId,
        position: { topic, partition: offset % 3, offset, index: 2 },
        ...changes,
      };
    };
    let now = Date.now() - DAY_MS / 2;
    const windowMs = DAY_MS;
    const source = openSqliteDeduplicator({ folder, windowMs, clock: () => now });
    const won = Array.from({ length: 3_000 }, (_, n) => claim(`m${n}`, n));
    const rejected = Array.from({ length: 300 }, (_, n) => claim(`r${n}`, 10_000 + n, { rejected: true }));
    await source.claim(won.slice(0, 1_500));
    now = Date.now();
    await source.claim([...won.slice(1_500), ...rejected]);
    await source.close();

    const redis = await RedisConnection.open({ url, logger: NO_LOGGER });
    onTestFinished(() => redis.close());
    const claims = [...storedClaims(folder, windowMs, now)];
    expect(claims).toHaveLength(won.length + rejected.length);
    for (const _ of ['first', 'again']) await importClaims(redis, prefix, claims, now);
    expect(await missingClaims(redis, prefix, claims, now)).toBe(0);
    expect(await missingClaims(redis, `${prefix}other:`, claims, now)).toBe(claims.length);

    const target = await openRedisDeduplicator({ url, prefix, windowMs, logger: NO_LOGGER });
    onTestFinished(() => target.close());
    expect(new Set(await target.claim(won))).toEqual(new Set([true]));
    const repeats = won.map((one) => ({ ...one, position: { ...one.position, offset: 50_000 } }));
    expect(new Set(await target.claim(repeats))).toEqual(new Set([false]));
    const again = rejected.map((one) => ({ ...one, position: { ...one.position, offset: 60_000 } }));
    expect(new Set(await target.claim(again))).toEqual(new Set([false]));
    expect(new Set(await target.claim(rejected))).toEqual(new Set([true]));
    const topics = ['events.production', 'events.development'];
    expect(await target.winner({ ...MESSAGE, messageId: 'm7' }, topics)).toEqual(won[7]?.position);
    // The id of a rejected event is free.
    const corrected = again.map(({ rejected: _, ...one }) => one);
    expect(new Set(await target.claim(corrected))).toEqual(new Set([true]));
    await expect(
      importClaims(
        redis,
        prefix,
        [{ ...(claims[0] ?? never()), position: repeats[0]?.position ?? never() }],
        now,
      ),
    ).rejects.toThrow('not of this installation');
  });

  it('counts on from the same numbers', async () => {
    const { folder, prefix, redisUrl: url } = await places();
    const hour = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
    const source = openSqliteVolumeCounters({ folder, clock: Date.now });
    const batch = (partition: number, from: number, names: readonly string[]) => ({
      topic: 'events.accepted',
      partition,
      from,
      to: from + 100,
      increments: names.map((eventName, n) => ({
        ...MESSAGE,
        eventType: 'track' as const,
        eventName,
        hour: hour - (n % 30) * HOUR_MS,
        count: n + 1,
      })),
      keyUses: [{ keyId: `key-${partition}`, at: hour + from }],
    });
    const names = Array.from({ length: 2_500 }, (_, n) => `Event ${n}`);
    for (const partition of [0, 1]) await source.apply(batch(partition, 0, names));
    await source.apply(batch(1, 100, names.slice(0, 10)));
    await source.touch({ keyId: 'api', at: hour });
    const run = { workspaceId: 'w', transformationId: 't', hour, counts: { runs: 7, errors: 1, ms3: 7 } };
    await source.addRuns([run]);
    const all = { workspaceId: 'w', fromHour: hour - 48 * HOUR_MS, toHour: hour };
    const runs = { ...all, transformationId: 't' };
    const expected = [
      await source.read(all),
      await source.lastUsed(['key-0', 'key-1', 'api', 'none']),
      await source.runs(runs),
    ];
    await source.close();

    const redis = await RedisConnection.open({ url, logger: NO_LOGGER });
    onTestFinished(() => redis.close());
    const stored = openStoredVolume(folder) ?? never();
    onTestFinished(() => stored.close());
    expect(await holdsVolume(redis, prefix)).toBe(false);
    for (const _ of ['first', 'again']) await importVolume(redis, prefix, stored);
    expect(await holdsVolume(redis, prefix)).toBe(true);
    const compared = await compareVolume(redis, prefix, stored, Date.now());
    expect(compared).toMatchObject({ different: 0, found: compared.expected });

    const target = await openRedisVolumeCounters({ url, prefix, logger: NO_LOGGER });
    onTestFinished(() => target.close());
    expect([
      await target.read(all),
      await target.lastUsed(['key-0', 'key-1', 'api', 'none']),
      await target.runs(runs),
    ]).toEqual(expected);
    expect(await target.applied({ topic: 'events.accepted', partition: 1 })).toBe(200);
    await expect(target.apply(batch(1, 100, ['Event 1']))).rejects.toThrow('is applied up to 200');
    await target.apply(batch(0, 100, ['Event 0']));
    expect(await compareVolume(redis, prefix, stored, Date.now())).toMatchObject({ different: 2 });
  });

  it('lists the history, and drops it when it would have expired', async () => {
    const { folder, prefix, elasticsearchUrl } = await places();
    const access = { urls: [elasticsearchUrl] };
    const retentionMs = 10 * DAY_MS;
    let now = Date.now() - 9 * DAY_MS;
    const source = openSqliteHistory({ folder, clock: () => now, retentionMs });
    const entry = (n: number, changes: Partial<HistoryEntry> = {}): HistoryEntry => ({
      kind: 'delivery',
      id: `d${n}`,
      workspaceId: `w${n % 2}`,
      at: now - n * HOUR_MS,
      version: 1,
      facets: { status: n % 3 === 0 ? 'dead' : 'retrying', destination_id: 'd' },
      body: { n, exact: JSON.rawJSON('12345678901234567890') as unknown as number },
      ...(n % 5 === 0 ? { detail: { event: { n } } } : {}),
      ...changes,
    });
    const old = Array.from({ length: 300 }, (_, n) => entry(n));
    await source.put(old);
    now = Date.now();
    const recent = Array.from({ length: 300 }, (_, n) => entry(1_000 + n, { at: now - n * 60_000 }));
    await source.put([...recent, { ...(old[4] ?? never()), version: 2, facets: { status: 'delivered' } }]);
    const queries = [
      { kind: 'delivery' as const, workspaceId: 'w0', limit: 1_000, details: true },
      { kind: 'delivery' as const, workspaceId: 'w1', limit: 1_000, facets: { status: 'dead' } },
      { kind: 'delivery' as const, workspaceId: 'w0', limit: 1_000, facets: { status: 'delivered' } },
    ];
    const hours = { kind: 'delivery' as const, workspaceId: 'w0', fromHour: 0, toHour: now };
    const expected = [
      await Promise.all(queries.map((query) => source.list(query))),
      await source.countByHour(hours),
      await source.get('delivery', 'w0', 'd4'),
    ];
    await source.close();

    const stored = openStoredHistory(folder) ?? never();
    onTestFinished(() => stored.close());
    const options = { access, prefix, retentionMs, logger: NO_LOGGER, timeoutMs: 30_000 };
    const imported = await openHistoryImport(options);
    const lastPuts = stored.lastPuts();
    expect(await imported.exists()).toBe(false);
    for (let from = 0; ; ) {
      const some = stored.after(from, 250);
      const last = some.at(-1);
      if (last === undefined) break;
      for (const [day, of] of Map.groupBy(some, ({ entry: { at } }) => dayOf(at)))
        await imported.put(
          of.map((one) => one.entry),
          lastPuts.get(day) ?? now,
        );
      from = last.number;
    }
    for (const { kind, workspaceId, count } of stored.counts())
      expect(await imported.count(kind, workspaceId)).toBe(count);
    await imported.close();

    const history = await openElasticsearchHistory({ ...options, clock: () => now, retentionEveryMs: false });
    onTestFinished(() => history.close());
    expect([
      await Promise.all(queries.map((query) => history.list(query))),
      await history.countByHour(hours),
      await history.get('delivery', 'w0', 'd4'),
    ]).toEqual(expected);
    // Two days later the days are expired whose last put was nine days ago.
    const later = await openElasticsearchHistory({ ...options, clock: () => now + 2 * DAY_MS });
    onTestFinished(() => later.close());
    // While an index is deleted, a read may be unavailable.
    await eventually(
      () => later.get('delivery', 'w0', 'd200').catch(() => 'unavailable'),
      (found) => found === undefined,
    );
    expect(await later.get('delivery', 'w0', 'd4')).toBeDefined();
    expect(await later.get('delivery', 'w0', 'd1000')).toBeDefined();
  });

  it('has the same people, remembers who was deleted, and publishes what was not', async () => {
    const { folder, prefix, elasticsearchUrl } = await places();
    const clock = { now: Date.now() - HOUR_MS };
    const retentionMs = 7 * DAY_MS;
    const common = { clock: () => clock.now, retentionMs, logger: NO_LOGGER };
    const source = await openSqliteProfileStore({
      folder,
      ...common,
      metrics: NO_METRICS,
      publish: async () => {
        throw new Unavailable('the log does not answer');
      },
    });
    const ucids = await populate(source, clock);
    const before = await everything(source, ucids);
    expect(before.length).toBeGreaterThan(15);
    await source.close();

    const exported = openProfileExport(folder) ?? never();
    onTestFinished(() => exported.close());
    const unpublished = exported.unpublished();
    expect(exported.counts()).toMatchObject({ forgotten: 0 });
    const access = { urls: [elasticsearchUrl] };
    const target = await ProfileImport.open({
      access,
      prefix,
      shards: 1,
      logger: NO_LOGGER,
      timeoutMs: 30_000,
      importId: 'one',
    });
    for (const _ of ['first', 'again']) {
      await target.begin(Date.now());
      for (let row = 0; ; ) {
        const some = exported.after(row, 7);
        const last = some.at(-1);
        if (last === undefined) break;
        const known = some.filter((one) => one.kind !== 'forgotten');
        await target.write(known, unpublished);
        await target.compare(known, unpublished);
        row = last.row;
      }
    }
    await target.close();

    const published: ProfileChange[] = [];
    const store = await openElasticsearchProfileStore({
      access,
      prefix,
      ...common,
      clock: () => Date.now(),
      publish: async (changes) => void published.push(...changes),
      sweepEveryMs: 500,
    });
    onTestFinished(() => store.close());
    expect(await everything(store, ucids)).toEqual(before);
    await eventually(
      () => [...unpublished.keys()].filter((ucid) => !published.some((change) => change.ucid === ucid)),
      (missing) => missing.filter((ucid) => ucids.published.includes(ucid)).length === 0,
    );
    expect(published.find(({ ucid }) => ucid === ucids.deleted)).toMatchObject({ kind: 'deleted' });
    expect(published.find(({ ucid }) => ucid === ucids.merged)?.linked.length).toBeGreaterThan(0);

    // Events from before the deletion, and from before an identity was taken, bring nobody back.
    const event = (identity: string, at: number): ProfileWrite => ({
      ...writeOf([identity]),
      linking: 'keep-people-apart',
      receivedAt: at,
      happenedAt: at,
    });
    const then = clock.now - 30 * 60_000;
    expect(await store.upsert(event('email:deleted@example.com', ucids.deletedAt - 1))).toMatchObject({
      kind: 'refused',
      reason: 'nothing_left',
    });
    expect(await store.upsert(event('email:taken@example.com', ucids.deletedAt - 1))).toMatchObject({
      kind: 'refused',
    });
    expect(await store.upsert(event('email:again@example.com', ucids.deletedAt - 1))).toMatchObject({
      kind: 'refused',
    });
    expect(then).toBeLessThan(Date.now());
    const fresh = await store.upsert(event('email:deleted@example.com', Date.now()));
    expect(fresh.kind).toBe('written');
    // Merges, splits and deletions go on.
    const joined = await store.upsert(writeOf(['email:p1@example.com', 'email:p2@example.com']));
    const survivor = joined.kind === 'written' ? joined.profile : never();
    expect(survivor.linked.length).toBeGreaterThan(0);
    const split = await store.split({ org: 1, region: 'eu', ucid: survivor.linked.at(-1) ?? '' });
    expect(split.kind).toBe('split');
    const gone = await store.delete({ org: 1, regions: ['eu'], identities: [], ucids: [ucids.mergedAway] });
    expect(gone.deleted).toEqual([ucids.merged]);
  });
});

interface Populated {
  /** Every ucid that was ever returned. */
  readonly all: readonly string[];
  readonly deleted: string;
  readonly deletedAt: number;
  readonly merged: string;
  readonly mergedAway: string;
  /** Changes that are certainly published: of profiles that are live or were deleted. */
  readonly published: readonly string[];
}

function writeOf(identities: readonly string[]): ProfileWrite {
  return {
    org: 1,
    region: 'eu',
    identities: identities.map((text) => {
      const at = text.indexOf(':');
      return { type: text.slice(0, at), value: text.slice(at + 1) };
    }),
    attributes: [{ path: ['traits', 'n'], value: identities.length }],
    preferences: [],
    consents: [],
    linking: 'merge',
  };
}

/** Writes, merges, an unlink, deletions, and an identity that was deleted, came back and was taken away. */
async function populate(store: ProfileStore, clock: { now: number }): Promise<Populated> {
  const all: string[] = [];
  const written = async (...identities: readonly string[]): Promise<Profile> => {
    clock.now += 1_000;
    const outcome = await store.upsert(writeOf(identities));
    if (outcome.kind !== 'written') throw new Error(`a write was refused: ${outcome.reason}`);
    all.push(outcome.profile.ucid);
    return outcome.profile;
  };
  for (let n = 0; n < 20; n++) await written(`email:p${n}@example.com`, `user_id:u${n}`);
  const merged = await written('email:m1@example.com');
  const mergedAway = await written('email:m2@example.com');
  await written('email:m1@example.com', 'email:m2@example.com');
  const deleted = await written('email:deleted@example.com', 'user_id:deleted');
  await written('email:taken@example.com');
  await written('email:again@example.com');
  clock.now += 1_000;
  const identities = ['deleted', 'taken', 'again'].map((name) => ({
    type: 'email',
    value: `${name}@example.com`,
  }));
  await store.delete({ org: 1, regions: ['eu'], identities, ucids: [] });
  const deletedAt = clock.now;
  const again = await written('email:again@example.com', 'user_id:again');
  await written('email:taken@example.com', 'user_id:taken');
  clock.now += 1_000;
  const taken = [{ type: 'email', value: 'taken@example.com' }];
  await store.unlink({ org: 1, region: 'eu', identities: taken });
  return {
    all: [...new Set(all)],
    deleted: deleted.ucid,
    deletedAt,
    merged: merged.ucid,
    mergedAway: mergedAway.ucid,
    published: [merged.ucid, deleted.ucid, again.ucid],
  };
}

/** What a search finds by each ucid. */
async function everything(store: ProfileStore, { all }: Populated): Promise<readonly unknown[]> {
  const found = await Promise.all(
    all.map((ucid) => store.search({ org: 1, regions: ['eu'], identities: [], ucids: [ucid] })),
  );
  return found.map((profiles) => profiles);
}

function never(): never {
  throw new Error('it is not there');
}
