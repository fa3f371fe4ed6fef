import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { openSqliteProcessBoard } from '@tributary/infra';
import { afterAll, beforeAll } from 'vitest';
import { temporaryFolder } from '../../../helpers/folder.ts';
import { processBoardConformance } from '../suite/process-board.conformance.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
beforeAll(async () => {
  folder = await temporaryFolder();
});
afterAll(() => folder.remove());

processBoardConformance({
  name: 'SQLite',
  open: async (scope, keptMs) =>
    openSqliteProcessBoard({ folder: join(folder.path, scope), clock: Date.now, keptMs }),
  dispose: (scope) => rm(join(folder.path, scope), { recursive: true, force: true }),
});
