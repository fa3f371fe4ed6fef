import {
  NO_LOGGER,
  NO_METRICS,
  type Profile,
  type ProfileChange,
  type ProfileStore,
  type ProfileWrite,
  Unavailable,
} from '@tributary/core';
import {
  openElasticsearchProfileStore,
  ProfileImport,
} from '@tributary/infra/adapters/profile-store/elasticsearch';
import { openProfileExport, openSqliteProfileStore } from '@tributary/infra/adapters/profile-store/sqlite';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { engines } from '../../helpers/engines.ts';
import { isolatedEngines, never } from './isolated-engines.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

describe.skipIf(engines() === undefined)('Moved profiles', () => {
  it('are unchanged, deletions are kept, and unpublished changes are published', async () => {
    const { folder, prefix, elasticsearchUrl } = await isolatedEngines();
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

/** The profiles that a search finds by each ucid. */
async function everything(store: ProfileStore, { all }: Populated): Promise<readonly unknown[]> {
  const found = await Promise.all(
    all.map((ucid) => store.search({ org: 1, regions: ['eu'], identities: [], ucids: [ucid] })),
  );
  return found.map((profiles) => profiles);
}
