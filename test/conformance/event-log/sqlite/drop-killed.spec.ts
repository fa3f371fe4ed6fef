import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type EventLog, NO_LOGGER, NO_METRICS, TOPIC } from '@tributary/core';
import { openSqliteEventLog } from '@tributary/infra';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Child } from '../../../helpers/child.ts';
import { temporaryFolder } from '../../../helpers/folder.ts';
import { TOPICS } from '../programs/sqlite-dropper.ts';

const DROPPER = new URL('../programs/sqlite-dropper.ts', import.meta.url);
const RECORDS = 60;
const KEPT = 5;
const below = RECORDS - KEPT;
/** In every size, so that pages of every kind are filled and left behind. */
const SIZES = [10, 300, 2_000, 9_000];
const textOf = (n: number) => `planted-${n}-`;

describe('a drop of an embedded log that is killed', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let log: EventLog;
  beforeEach(async () => {
    folder = await temporaryFolder();
    const options = {
      folder: folder.path,
      topics: TOPICS,
      segmentBytes: 100_000,
      retentionEveryMs: false,
    } as const;
    log = await openSqliteEventLog({ ...options, logger: NO_LOGGER, metrics: NO_METRICS });
    await log.createTopics();
    for (let n = 0; n < RECORDS; n++) {
      const value = textOf(n).repeat((SIZES[n % SIZES.length] ?? 0) / 10);
      await log.append(TOPIC.catalog, [{ key: 'k', value, headers: {} }]);
    }
  });
  afterEach(async () => {
    await log.close();
    await folder.remove();
  });

  /** The dropped records with bytes left in some file of the log. */
  async function held(): Promise<readonly number[]> {
    const files: Buffer[] = [];
    for (const entry of await readdir(folder.path, { recursive: true, withFileTypes: true }))
      if (entry.isFile()) files.push(await readFile(join(entry.parentPath, entry.name)));
    const numbers = Array.from({ length: below }, (_, n) => n);
    return numbers.filter((n) => files.some((bytes) => bytes.includes(textOf(n))));
  }

  async function offsets(): Promise<readonly number[]> {
    const found: number[] = [];
    for (let from = 0; ; ) {
      const { entries, next } = await log.read(TOPIC.catalog, 0, from);
      if (entries.length === 0) return found;
      found.push(...entries.map(({ position }) => position.offset));
      from = next;
    }
  }

  const kept = Array.from({ length: KEPT }, (_, n) => below + n);

  it.each([
    ['deleted', 1, 0],
    ['deleted', 2, 0],
    ['written anew', 1, 0],
    ['emptied', 1, 0],
    ['removed', 1, 0],
    // The next drop completes an interrupted one, even with a smaller bound.
    ['deleted', 1, 3],
    ['written anew', 1, 3],
  ])(
    'after "%s" (%i.) leaves a beginning, a hole and the rest; the next one leaves no byte',
    async (step, time, less) => {
      const child = new Child(DROPPER, [folder.path, String(below), step, String(time)]);
      await child.ended();
      expect((await held()).length).toBeGreaterThan(0);
      const left = await offsets();
      expect(left.slice(-KEPT)).toEqual(kept);
      const beginning = left.slice(0, -KEPT);
      expect(beginning).toEqual(beginning.map((_, n) => n));
      expect(beginning.length).toBeLessThan(below);
      await log.dropBelow(TOPIC.catalog, 0, below - less);
      expect(await offsets()).toEqual(kept);
      expect(await held()).toEqual([]);
    },
  );
});
