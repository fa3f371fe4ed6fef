import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { objectIn } from '@tributary/core';
import { afterAll, describe, expect, it } from 'vitest';
import { installedIn } from '../../../helpers/installed.ts';
import { postgresServer } from '../../../helpers/postgres.ts';
import { noEngine } from '../../connector/suite/harness.ts';
import { signal, TestLoader, track } from '../suite/harness.ts';
import { profileChange } from '../suite/profiles.ts';
import { bigqueryHarness } from './harness.ts';

/** Where `.ci/bigquery` installs Google's analyzer. */
const VERSION = '0.1.5';
const FOLDER = installedIn(`zetasql-${VERSION}`);
const ANALYZE = fileURLToPath(new URL('analyze.py', import.meta.url));

const server = FOLDER === undefined ? undefined : await postgresServer();
if (FOLDER === undefined) console.warn('NO ANALYZER OF GOOGLESQL, its test is SKIPPED: bash .ci/bigquery');

describe.skipIf(server === undefined)('the statements of a BigQuery warehouse', () => {
  afterAll(() => server?.stop());

  it("are GoogleSQL, with the types of their tables, by Google's analyzer", async () => {
    const harness = server === undefined ? noEngine('postgres') : await bigqueryHarness(server);
    try {
      const scripts: string[] = [];
      harness.api.record = async (sql) => {
        scripts.push(JSON.stringify({ sql, tables: await harness.describe() }));
      };
      const loader = new TestLoader(harness.open({ match_days: 3 }));
      const all = { n: 1, f: 1.5, d: 1e300, b: true, at: '2024-02-29T12:00:00.120Z', list: [1], t: 'x' };
      const other = new TestLoader(harness.open());
      expect(await other.warehouse.test(signal)).toEqual({ ok: true });
      const changes = [profileChange('U1', 1, { plan: 'free' }, ['ann'])];
      await loader.load([track('Order', all)], { changes });
      await loader.load([track('Order', { n: 1.5, fresh: 1, notes: ['a'] })]);
      const texts = Object.fromEntries(Object.keys(all).map((name) => [name, 'text']));
      await loader.load([track('Order', texts)], { seq: 1_000 });
      await other.load([track('Order', all, { user_id: 'ann' })], {
        lane: 'replay',
        changes: [profileChange('U1', 2, undefined, [], { kind: 'deleted' })],
      });
      await loader.warehouse.delete({ user_ids: ['ann'], anonymous_ids: [], ucids: ['U1'] }, signal);
      for (const part of [
        'insert into',
        'create temp table',
        'rename column',
        'set data type',
        'delete from',
        'between timestamp',
      ])
        expect(scripts.some((script) => script.includes(part))).toBe(true);
      // What the loader relies on: a number does not become a text unasked.
      const statement = 'insert into `t` (`n`) select cast(c0 as int64) from (select "1" as c0)';
      const wrong = JSON.stringify({ sql: statement, tables: { t: { n: 'STRING' } } });
      expect(await refused([...scripts, wrong])).toEqual([
        { statement, error: expect.stringContaining('STRING') },
      ]);
    } finally {
      await harness.close();
    }
  });
});

async function refused(scripts: readonly string[]): Promise<readonly unknown[]> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const env = { ...process.env, PYTHONPATH: FOLDER, PYTHONDONTWRITEBYTECODE: '1' };
  const child = execFile('python3', [ANALYZE], { env }, (error, stdout) => {
    if (error === null) resolve(stdout);
    else reject(error);
  });
  child.stdin?.end(scripts.join('\n'));
  const lines = (await promise).split('\n').filter((line) => line !== '');
  return lines.map((line) => objectIn(JSON.parse(line)));
}
