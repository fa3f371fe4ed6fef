import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { identityHash, NO_LOGGER, NO_METRICS } from '@tributary/core';
import { expect, it, onTestFinished } from 'vitest';
import { openProfileExport } from './profile-export.ts';
import { openSqliteProfileStore } from './profile-store.ts';

const SCOPE = { org: 1, region: 'eu' };
const PERSON = { type: 'email', value: 'a@example.com' };
const AT = 1_790_000_000_000;

async function deletedIn(folder: string): Promise<void> {
  const store = await openSqliteProfileStore({
    folder,
    clock: () => AT,
    retentionMs: 86_400_000,
    publish: async () => {},
    logger: NO_LOGGER,
    metrics: NO_METRICS,
  });
  const identities = [PERSON];
  const rest = { attributes: [], preferences: [], consents: [], linking: 'merge' } as const;
  await store.upsert({ ...SCOPE, identities, ...rest });
  await store.delete({ org: 1, regions: ['eu'], identities, ucids: [] });
  await store.close();
}

it('deletions of older releases cannot be exported, and are counted', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-export-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  expect(openProfileExport(folder)).toBeUndefined();
  await deletedIn(folder);
  const first = openProfileExport(folder);
  expect(first?.counts()).toEqual({ live: 0, deleted: 1, forgotten: 0, lastForgotten: 0 });
  const hashes = [identityHash(SCOPE, PERSON)];
  expect(first?.after(0, 10)).toMatchObject([
    { kind: 'deleted', deletedAt: AT, ...SCOPE, version: 2, hashes, unclaimed: hashes },
  ]);
  first?.close();

  const database = new DatabaseSync(join(folder, 'profiles.db'));
  database.exec(`UPDATE profiles SET body = json_remove(body, '$.deletion')`);
  database.close();
  const second = openProfileExport(folder);
  expect(second?.counts()).toEqual({ live: 0, deleted: 1, forgotten: 1, lastForgotten: AT });
  expect(second?.after(0, 10)).toEqual([{ row: 1, kind: 'forgotten', deletedAt: AT }]);
  second?.close();
});
