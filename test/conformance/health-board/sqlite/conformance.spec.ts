import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { openSqliteHealthBoard } from '@tributary/infra';
import { afterAll, beforeAll } from 'vitest';
import { temporaryFolder } from '../../../helpers/folder.ts';
import { healthBoardConformance } from '../suite/health-board.conformance.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
beforeAll(async () => {
  folder = await temporaryFolder();
});
afterAll(() => folder.remove());

healthBoardConformance({
  name: 'SQLite',
  open: async (scope, keptMs) =>
    openSqliteHealthBoard({ folder: join(folder.path, scope), clock: Date.now, keptMs }),
  dispose: (scope) => rm(join(folder.path, scope), { recursive: true, force: true }),
});
