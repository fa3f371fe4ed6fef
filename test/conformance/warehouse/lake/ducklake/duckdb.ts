import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installedIn } from '../../../../helpers/installed.ts';
import { connectDuckdb, type DuckdbConnection, type JudgedRow } from '../../suite/duckdb.ts';

const VERSION = '1.5.5';

/** The folder in which `.ci/ducklake` installs the extensions; undefined without an installation. */
export function findExtensions(): string | undefined {
  return installedIn(`ducklake-${VERSION}`, 'duckdb_extension_ducklake');
}

type Answer = { readonly rows: readonly JudgedRow[] } | { readonly error: string };

/**
 * DuckDB with a DuckLake as `lake`, in a process of its own: it has its own copy of SQLite, and locks of two copies in one process
 * do not see each other. `catalog` is what stands behind `ducklake:`.
 */
export async function openDuckLake(extensions: string, catalog: string): Promise<DuckdbConnection> {
  const child = fork(fileURLToPath(import.meta.url), [], {
    execArgv: ['--disable-warning=ExperimentalWarning'],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
  });
  const died = ended.then(() => {
    throw new Error('the process of DuckDB ended');
  });
  died.catch(() => undefined);
  let turn: Promise<unknown> = Promise.resolve();
  const query = (sql: string) => {
    const answer = turn.then(async () => {
      child.send(sql);
      const [message] = (await Promise.race([once(child, 'message'), died])) as [Answer];
      if ('error' in message) throw new Error(message.error);
      return message.rows;
    });
    turn = answer.catch(() => undefined);
    return answer;
  };
  for (const name of ['ducklake', 'sqlite_scanner', 'postgres_scanner'])
    await query(
      `load '${join(extensions, `duckdb_extension_${name}`, 'extensions', `v${VERSION}`, `${name}.duckdb_extension`)}'`,
    );
  const close = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  try {
    await query(`attach 'ducklake:${catalog}' as lake (create_if_not_exists false)`);
  } catch (error) {
    await close();
    throw error;
  }
  return { query, close };
}

if (process.send !== undefined && process.argv[1] === fileURLToPath(import.meta.url)) {
  const connecting = connectDuckdb();
  process.on('message', (sql) => {
    void connecting
      .then(({ query }) => query(String(sql)))
      .then(
        (rows) => process.send?.({ rows }),
        (error: unknown) => process.send?.({ error: String(error) }),
      );
  });
}
