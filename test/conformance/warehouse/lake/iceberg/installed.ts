import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isObject, parseExact } from '@tributary/core';
import { installedIn, startPrinting } from '../../../../helpers/installed.ts';
import type { Judge } from '../../suite/duckdb.ts';
import type { TestCatalog } from './harness.ts';

const VERSION = 1;

/** The folder in which `.ci/iceberg` installs Iceberg's own catalog and its readers; undefined without an installation. */
export function findIceberg(): string | undefined {
  return installedIn(`iceberg-${VERSION}`);
}

/** Starts the catalog of `RestCatalog.java`, whose tables DuckDB reads by its own extension. */
export async function startRealCatalog(installed: string) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-rest-catalog-'));
  const java = process.env.JAVA_HOME === undefined ? 'java' : join(process.env.JAVA_HOME, 'bin', 'java');
  const classpath = `${join(installed, 'classes')}:${join(installed, 'jars', '*')}`;
  const flags = ['-Xmx384m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];
  const { port, stop } = await startPrinting(java, [...flags, '-cp', classpath, 'RestCatalog', folder]);
  const url = `http://127.0.0.1:${port}`;
  const pathOf = (namespace: string, name: string) => `${url}/v1/namespaces/${namespace}/tables/${name}`;
  const described = async (namespace: string, name: string) => {
    const response = await fetch(pathOf(namespace, name));
    if (response.status === 404) return undefined;
    const document: unknown = parseExact(await response.text());
    return isObject(document) ? document : undefined;
  };
  const catalog: TestCatalog = {
    url,
    async table(namespace, name) {
      const metadata = (await described(namespace, name))?.metadata;
      return isObject(metadata) ? metadata : undefined;
    },
    async relation(namespace, name) {
      const location = (await described(namespace, name))?.['metadata-location'];
      return location === undefined ? undefined : `iceberg_scan('${String(location)}')`;
    },
    async prepare(judge) {
      await loadExtensions(installed, judge, ['avro', 'iceberg']);
    },
    async drop(namespace, name) {
      await fetch(pathOf(namespace, name), { method: 'DELETE' });
    },
    async close() {},
  };
  return {
    catalog,
    async stop() {
      await stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function loadExtensions(installed: string, judge: Judge, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const file = `duckdb_extension_${name}/extensions/v1.5.5/${name}.duckdb_extension`;
    await judge.query(`load '${join(installed, 'python', file)}'`);
  }
}

function python(installed: string, script: string, args: readonly string[]) {
  const file = fileURLToPath(new URL(script, import.meta.url));
  const env = {
    ...process.env,
    PYTHONPATH: join(installed, 'python'),
    PYTHONDONTWRITEBYTECODE: '1',
  };
  return { args: ['-W', 'ignore', file, ...args], env };
}

/** Starts a program of others that writes tables anew by pyiceberg, without an end. */
export function startCompaction(installed: string, { url }: TestCatalog, namespace: string) {
  const { args, env } = python(installed, 'compact.py', [url, namespace]);
  const child = spawn('python3', args, { env, stdio: ['ignore', 'pipe', 'ignore'] });
  const closed = once(child, 'close');
  let commits = 0;
  createInterface({ input: child.stdout }).on('line', () => {
    commits += 1;
  });
  return {
    commits: () => commits,
    async stop() {
      child.kill();
      await closed;
    },
  };
}

/**
 * Reads all tables of a namespace by pyiceberg, and by DuckDB as a user attaches the catalog, and compares their rows. Returns the
 * number of rows by table, and the tables in which one of them has other rows.
 */
export async function judged(installed: string, { url }: TestCatalog, namespace: string, judge: Judge) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-judged-'));
  try {
    const { args, env } = python(installed, 'judge.py', [url, namespace, folder]);
    const { stdout } = await promisify(execFile)('python3', args, { env });
    await loadExtensions(installed, judge, ['avro', 'httpfs', 'iceberg']);
    await judge.query(
      `attach 'tests' as judged (type iceberg, endpoint '${url}', authorization_type 'none')`,
    );
    const counts: Record<string, number> = {};
    const differing: string[] = [];
    for (const table of stdout.trim().split('\n')) {
      const [one, other] = [`judged.${namespace}."${table}"`, `'${folder}/${table}.parquet'`];
      const [row] = await judge.query(`select count(*) as n from ${one}`);
      counts[table] = Number(row?.n);
      const different = await judge.query(
        `(select * from ${one} except all select * from ${other}) union all (select * from ${other} except all select * from ${one}) limit 1`,
      );
      if (different.length > 0) differing.push(table);
    }
    return { counts, differing };
  } finally {
    await judge.query('detach database if exists judged');
    await rm(folder, { recursive: true, force: true });
  }
}
