import { copyFile, mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type Catalog, declareTopics, type EventLog, NO_LOGGER, NO_METRICS, TOPIC } from '@tributary/core';
import { openLogCatalog, openSqliteEventLog } from '@tributary/infra';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../../helpers/folder.ts';
import { contractFact, factOf, memberFact, renameFact, workspaceFact } from '../suite/harness.ts';
import { digestOf } from './rewrite-contents.ts';
import { openWithSnapshots } from './snapshots-harness.ts';

const TOPICS = declareTopics({ partitions: 1, retentionMs: 60_000, retrySteps: [], dedicated: [] });
const REWRITE = { by: 'operator:catalog', stages: [], stageTimeoutMs: 5_000 };
const PLANTED = 'planted-7c1f@example.com';
/** Facts of a page of SQLite each, and several of one: pages of every kind are filled, split and left behind. */
const SIZES = [10, 300, 2_000, 9_000, 40_000];

/** The log may be writing to the open file and its write-ahead log, so SQLite itself has to make the copy. */
function copyDatabase(from: string, to: string): void {
  const database = new DatabaseSync(from, { readOnly: true });
  database.prepare('VACUUM INTO ?').run(to);
  database.close();
}

describe('the files of a rewritten embedded catalog', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  const closing: { close(): Promise<unknown> }[] = [];
  beforeEach(async () => {
    folder = await temporaryFolder();
  });
  afterEach(async () => {
    for (const each of closing.splice(0).reverse()) await each.close();
    await folder.remove();
  });

  async function openLog(segmentBytes: number): Promise<EventLog> {
    const options = { folder: join(folder.path, 'log'), topics: TOPICS, segmentBytes };
    const log = await openSqliteEventLog({ ...options, logger: NO_LOGGER, metrics: NO_METRICS });
    closing.push(log);
    await log.createTopics();
    return log;
  }
  function opened(log: EventLog) {
    const catalog = openLogCatalog({ log, logger: NO_LOGGER, fetchWaitMs: 50 });
    closing.push(catalog);
    return catalog;
  }
  async function caughtUp<C extends Catalog>(catalog: C): Promise<C> {
    await catalog.catchUp(10_000);
    return catalog;
  }

  /** Members who joined and left, and facts that mention them, in every size. */
  async function fill(catalog: Catalog): Promise<void> {
    await catalog.propose(workspaceFact());
    for (let n = 0; n < 60; n++) {
      const padding = 'p'.repeat(SIZES[n % SIZES.length] ?? 0);
      await catalog.propose(memberFact(`m${n}`, n % 2 === 0 ? PLANTED : `${n}.${PLANTED}`));
      await catalog.propose(contractFact(`c${n}`, `pair-${n}`));
      await catalog.propose(renameFact(`c${n}`, `${PLANTED}${padding}${PLANTED}`, 1));
      await catalog.propose(renameFact(`c${n}`, 'forgotten', 2));
      await catalog.propose(factOf('workspace_member.removed', `m${n}`, {}));
      // Contracts are kept for events of their time; the contracts of these names never evaluated one.
      await catalog.propose(factOf('contract.archived', `c${n}`, {}));
    }
  }

  /** The files below the folder that contain the text. */
  async function holding(text: string): Promise<readonly string[]> {
    const found: string[] = [];
    for (const entry of await readdir(folder.path, { recursive: true, withFileTypes: true })) {
      const file = join(entry.parentPath, entry.name);
      if (entry.isFile() && (await readFile(file)).includes(text)) found.push(file.slice(folder.path.length));
    }
    return found;
  }

  it.each([
    ['one file', 256 * 1024 * 1024],
    ['many', 100_000],
  ])('contain no byte of data that is no longer in the state, in %s', async (_, segmentBytes) => {
    const log = await openLog(segmentBytes);
    const file = join(folder.path, 'catalog.snapshot');
    const options = { logger: NO_LOGGER, staleAfterMs: 10_000, proposeTimeoutMs: 5_000, everyMs: 3_600_000 };
    const snapshotting = openWithSnapshots(log, file, options);
    await snapshotting.propose(workspaceFact());
    await snapshotting.propose(memberFact('m-snapshot', PLANTED));
    await snapshotting.close();
    const [catalog, reader] = [opened(log), opened(await openLog(segmentBytes))];
    await caughtUp(catalog);
    await catalog.propose(factOf('workspace_member.removed', 'm-snapshot', {}));
    await fill(catalog);
    expect((await holding(PLANTED)).length).toBeGreaterThan(1);
    await caughtUp(reader);
    // A catalog with snapshots knows the retention of events, and so the contracts that no longer evaluate
    // any.
    const forgetting = openWithSnapshots(log, file, options);
    await forgetting.catchUp(10_000);
    await forgetting.rewrite(REWRITE);
    const known = digestOf(forgetting);
    await forgetting.close();
    expect(await holding(PLANTED)).toEqual([]);
    expect((await stat(file)).size).toBeGreaterThan(100);
    expect(digestOf(await caughtUp(opened(log)))).toBe(known);
    expect(reader.ready).toBe(true);
  });

  it('are read correctly with any part that a crash left to be removed, and the next rewrite removes it', async () => {
    const log = await openLog(50_000);
    const catalog = opened(log);
    await fill(catalog);
    const known = digestOf(catalog);
    const family = join(folder.path, 'log', 'catalog');
    const aside = join(folder.path, 'aside');
    await mkdir(aside);
    const segments = async () => (await readdir(family)).filter((name) => name.endsWith('.db')).sort();
    const before = await segments();
    expect(before.length).toBeGreaterThan(5);
    for (const name of before) copyDatabase(join(family, name), join(aside, name));
    await catalog.rewrite(REWRITE);
    const left = await segments();
    const gone = before.filter((name) => !left.includes(name));
    expect(gone.length).toBeGreaterThan(3);
    // The newest are removed first: after a crash the oldest are still there.
    for (const count of [gone.length, 2, 1]) {
      for (const name of gone.slice(0, count)) await copyFile(join(aside, name), join(family, name));
      const other = await openLog(50_000);
      expect(digestOf(await caughtUp(opened(other)))).toBe(known);
      expect(await other.first(TOPIC.catalog, 0)).toBe(0);
      await catalog.rewrite(REWRITE);
      expect((await segments()).filter((name) => gone.includes(name))).toEqual([]);
      expect(await other.first(TOPIC.catalog, 0)).toBeGreaterThan(0);
      expect(digestOf(await caughtUp(opened(other)))).toBe(known);
    }
  });
});
