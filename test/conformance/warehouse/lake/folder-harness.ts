import { mkdtemp, rename, rm, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CanonicalEvent, newId, type Warehouse } from '@tributary/core';
import {
  type FileChange,
  type FileFaults,
  fileError,
  type killedBefore,
  withFileFaults,
} from '../../../helpers/file-faults.ts';
import { WORKSPACE_ID } from '../../connector/suite/harness.ts';
import { openJudge, parquetTable } from '../suite/duckdb.ts';
import { loadersOf, signal, TestLoader, type WarehouseHarness } from '../suite/harness.ts';
import { profileChange } from '../suite/profiles.ts';

/** Bytes that stand for one change of a file, in `cutAfter`. */
const BYTES_OF_CHANGE = 400;

export type FolderHarness = Awaited<ReturnType<typeof folderHarness>>;

/** The format of a lake as a harness knows it: what DuckDB reads of a table, and changes by hand. */
export interface HarnessFormat {
  readonly settings: Readonly<Record<string, string>>;
  relation(folder: string, table: string): string;
  readonly byHand: (folder: string) => WarehouseHarness['byHand'];
  /** Whether the answer to this change of a file is that to a commit. */
  isCommit(call: FileChange, path: string): boolean;
}

const PLAIN: HarnessFormat = {
  settings: {},
  relation: parquetTable,
  byHand: (folder) => ({
    dropTable: (table: string) => rm(join(folder, table), { recursive: true }),
    dropLedger: () => rm(join(folder, '_tributary'), { recursive: true }),
  }),
  isCommit: (call, path) => call === 'link' && path.includes('_tributary/log'),
};

/** A lake in a folder of its own. DuckDB reads its tables. */
export async function folderHarness(clock: () => number = Date.now, format = PLAIN) {
  const dataFolder = await mkdtemp(join(tmpdir(), 'tributary-lake-'));
  const folder = join(dataFolder, 'lake', WORKSPACE_ID, 'team', 'events');
  const judge = await openJudge();
  const settings = { folder: 'team/events', ...format.settings };
  const loaders = loadersOf('lake', settings, { dataFolder, clock });
  let losesNext = false;
  let changesLeft = Number.POSITIVE_INFINITY;
  const faults: FileFaults = {
    before() {
      changesLeft -= 1;
      if (changesLeft >= 0) return;
      changesLeft = Number.POSITIVE_INFINITY;
      throw fileError('EIO');
    },
    after(call, path) {
      if (!losesNext || !format.isCommit(call, path)) return;
      losesNext = false;
      throw fileError('EIO');
    },
  };

  return {
    folder,
    judge,
    /** A loader whose changes of files meet these faults. */
    open: (own: FileFaults = faults) => faulty(loaders.open(), own),
    /** One of another destination, in the same folder. */
    openAnother: () => loaders.open({}, newId()),
    rows: (table: string) => judge.rows(format.relation(folder, table)),
    type: async (table: string, column: string) =>
      (await judge.types(format.relation(folder, table))).get(column),
    knowsIdsByTime: true,
    byHand: format.byHand(folder),
    loseNextCommit() {
      losesNext = true;
    },
    cutAfter(bytes: number) {
      changesLeft = Math.floor(bytes / BYTES_OF_CHANGE);
    },
    async fail() {
      await rename(folder, `${folder}.aside`);
      await writeFile(folder, 'a file where the folder should be');
    },
    async mend() {
      await unlink(folder);
      await rename(`${folder}.aside`, folder);
    },
    async close() {
      await loaders.close();
      await judge.close();
      await rm(dataFolder, { recursive: true, force: true });
    },
  } satisfies WarehouseHarness & Readonly<Record<string, unknown>>;
}

/** Loads as a process that is killed, and then as another one unless the ledger has it. */
export async function loadThroughKill(
  harness: Pick<FolderHarness, 'open'>,
  faults: ReturnType<typeof killedBefore>,
  events: readonly CanonicalEvent[],
  seq: number,
): Promise<void> {
  const changes = [profileChange('U1', seq, { seq }, ['ann'])];
  const doomed = new TestLoader(harness.open(faults));
  await Promise.race([doomed.load(events, { seq, changes }).catch(() => undefined), faults.died]);
  // The system ends the locks of a process that is killed.
  await doomed.warehouse.close();
  const next = new TestLoader(harness.open());
  if ((await next.warehouse.newest('live', signal))?.seq !== seq) await next.load(events, { seq, changes });
}

/** The warehouse, with all its calls under faults. */
function faulty(warehouse: Warehouse, faults: FileFaults): Warehouse {
  return {
    limits: warehouse.limits,
    newest: (...args) => withFileFaults(faults, () => warehouse.newest(...args)),
    describe: (...args) => withFileFaults(faults, () => warehouse.describe(...args)),
    alter: (...args) => withFileFaults(faults, () => warehouse.alter(...args)),
    commit: (...args) => withFileFaults(faults, () => warehouse.commit(...args)),
    delete: (...args) => withFileFaults(faults, () => warehouse.delete(...args)),
    maintain: (signal) => withFileFaults(faults, async () => (await warehouse.maintain?.(signal)) ?? false),
    test: (...args) => withFileFaults(faults, () => warehouse.test(...args)),
    close: () => warehouse.close(),
  };
}
