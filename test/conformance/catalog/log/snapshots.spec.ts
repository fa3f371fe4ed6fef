import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  type Catalog,
  type EventLog,
  type LogEntry,
  NO_LOGGER,
  type ReadOptions,
  TOPIC,
} from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../../helpers/folder.ts';
import { catalogConformance } from '../suite/catalog.conformance.ts';
import { contractFact, renameFact, WORKSPACE_ID, workspaceFact } from '../suite/harness.ts';
import { harness as plain } from './harness.ts';
import { harness, openWithSnapshots } from './snapshots-harness.ts';

catalogConformance(harness);

describe('the snapshot of a catalog', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let log: EventLog;
  let file: string;
  beforeEach(async () => {
    folder = await temporaryFolder();
    file = join(folder.path, 'shared', 'catalog.snapshot');
    log = await plain.openLog(join(folder.path, 'log'));
  });
  afterEach(async () => {
    await log.close();
    await folder.remove();
  });

  /** Opens a catalog that writes a snapshot only at close, and reports its log reads and its warnings. */
  function start(over: EventLog = log, everyMs = 3_600_000) {
    const read: LogEntry[] = [];
    const warnings: string[] = [];
    const watched = {
      append: over.append.bind(over),
      end: over.end.bind(over),
      first: over.first.bind(over),
      async read(topic: string, partition: number, from: number, options?: ReadOptions) {
        const result = await over.read(topic, partition, from, options);
        read.push(...result.entries);
        return result;
      },
    } as EventLog;
    const say = (_: object, message: string) => warnings.push(message);
    const logger = { ...NO_LOGGER, warn: say, error: say };
    const options = { logger, staleAfterMs: 10_000, proposeTimeoutMs: 5_000, everyMs };
    return { catalog: openWithSnapshots(watched, file, options), read, warnings };
  }

  const names = (catalog: Catalog) =>
    catalog.state.entities('contract', WORKSPACE_ID).map(({ id, name, version }) => ({ id, name, version }));

  /** A workspace with contracts, one of them renamed, and a snapshot of it. */
  async function written(contracts = 20): Promise<readonly object[]> {
    const { catalog } = start();
    await catalog.propose(workspaceFact());
    for (let n = 0; n < contracts; n++) await catalog.propose(contractFact(`c${n}`, `pair-${n}`));
    await catalog.propose(renameFact('c0', 'renamed', 1));
    const known = names(catalog);
    await catalog.close();
    return known;
  }

  it('is loaded at start, and only later facts are read from the log', async () => {
    const known = await written();
    const between = start(log);
    await between.catalog.catchUp(5_000);
    await between.catalog.propose(renameFact('c1', 'later', 1));
    const { catalog, read, warnings } = start();
    await catalog.catchUp(5_000);
    expect(warnings).toEqual([]);
    expect(names(catalog)).toHaveLength(known.length);
    expect(names(catalog).find((one) => 'id' in one && one.id === 'c1')).toMatchObject({ name: 'later' });
    // The fact that proves the snapshot belongs to this log, and the later one.
    expect(new Set(read.map(({ position }) => position.offset)).size).toBe(2);
    expect((await catalog.propose(contractFact('c-new', 'pair-0'))).applied).toBe(false);
    await between.catalog.close();
    await catalog.close();
  });

  it('is written on a schedule, and not again without new facts', async () => {
    const { catalog } = start(log, 10);
    await catalog.propose(workspaceFact());
    await expect.poll(() => stat(file).catch(() => undefined)).toBeDefined();
    await expect.poll(async () => (await headerOf(file)).position).toBe(1);
    const { ino } = await stat(file);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect((await stat(file)).ino).toBe(ino);
    await catalog.close();
    expect((await stat(file)).ino).toBe(ino);
  });

  const damages: Record<string, (bytes: Buffer) => Buffer> = {
    'that is empty': () => Buffer.alloc(0),
    'that ends in the middle': (bytes) => bytes.subarray(0, bytes.length / 2),
    'that lacks its last line': (bytes) => bytes.subarray(0, bytes.lastIndexOf('\n', bytes.length - 2) + 1),
    'that lacks its last byte but one': (bytes) => bytes.subarray(0, bytes.length - 2),
    'with one bit changed': (bytes) => {
      const at = bytes.indexOf('renamed');
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      return changed;
    },
    'that is something else': () => Buffer.from('{"sha256":"x"}\n'),
    'of an older fold': (bytes) => sealed(bytes, (header) => ({ ...header, fold: 0 })),
    'of a newer fold': (bytes) => sealed(bytes, (header) => ({ ...header, fold: 99 })),
    'of another form': (bytes) => sealed(bytes, (header) => ({ ...header, format: 'tributary-catalog-0' })),
    'that ends with another fact': (bytes) =>
      sealed(bytes, (header) => ({ ...header, last: { offset: 3, sha256: '0'.repeat(64) } })),
    'that is ahead of the log': (bytes) => sealed(bytes, (header) => ({ ...header, position: 1_000 })),
  };

  it.each(Object.entries(damages))('%s is ignored with a warning', async (_what, damage) => {
    const known = await written();
    await writeFile(file, damage(await readFile(file)));
    const { catalog, read, warnings } = start();
    await catalog.catchUp(5_000);
    expect(warnings).toEqual([expect.stringMatching(/^the catalog snapshot is ignored/)]);
    expect(names(catalog)).toEqual(known);
    expect(read.length).toBeGreaterThanOrEqual(22);
    // And the next snapshot is good again.
    await catalog.propose(contractFact('another', 'another'));
    await catalog.close();
    const next = start();
    await next.catalog.catchUp(5_000);
    expect(next.warnings).toEqual([]);
    expect(names(next.catalog)).toHaveLength(21);
    await next.catalog.close();
  });

  it('is sufficient if retention dropped every fact: the catalog continues from it', async () => {
    const known = await written();
    await log.dropBelow(TOPIC.catalog, 0, await log.end(TOPIC.catalog, 0));
    const { catalog, warnings } = start();
    await catalog.catchUp(5_000);
    expect(names(catalog)).toEqual(known);
    expect(warnings).toEqual([expect.stringContaining('lost the earlier facts')]);
    await catalog.propose(renameFact('c2', 'after the loss', 1));
    const after = names(catalog);
    await catalog.close();
    const again = start();
    await again.catalog.catchUp(5_000);
    expect(names(again.catalog)).toEqual(after);
    await again.catalog.close();
  });

  it('does not replace missing facts: with a gap behind it the catalog is not ready', async () => {
    await written(3);
    const between = start(log, 3_600_000);
    await between.catalog.catchUp(5_000);
    const old = await readFile(file);
    await between.catalog.propose(renameFact('c1', 'later', 1));
    await between.catalog.close();
    await writeFile(file, old);
    await log.dropBelow(TOPIC.catalog, 0, await log.end(TOPIC.catalog, 0));
    const { catalog } = start();
    await expect(catalog.catchUp(2_000)).rejects.toThrow();
    expect(catalog.ready).toBe(false);
    await catalog.close();
  });

  it('of another log is ignored with a warning', async () => {
    await written();
    const other = await plain.openLog(join(folder.path, 'other'));
    for (let n = 0; n < 30; n++) await append(other, workspaceFact(`other-${n}`));
    const { catalog, warnings } = start(other);
    await catalog.catchUp(5_000);
    expect(warnings).toEqual(['the catalog snapshot is ignored: it is not of this log']);
    expect(catalog.state.workspace(WORKSPACE_ID)).toBeUndefined();
    expect(catalog.state.workspace('other-29')).toBeDefined();
    await catalog.close();
    await other.close();
  });

  it('that cannot be written loses no data and is logged', async () => {
    await mkdir(file, { recursive: true });
    await writeFile(join(file, 'in the way'), '');
    const { catalog, warnings } = start();
    await catalog.propose(workspaceFact());
    await catalog.close();
    expect(warnings).toContain('the catalog snapshot was not written; the next interval tries again');
    expect(await readdir(dirname(file))).toEqual(['catalog.snapshot']);
  });

  it('never contains a fact that could not be applied, not even in part', async () => {
    const { catalog } = start();
    await catalog.propose(workspaceFact());
    await append(log, { ...workspaceFact('w2'), v: 2 });
    await expect.poll(() => catalog.ready).toBe(false);
    await catalog.close();
    expect(await stat(file).catch(() => undefined)).toBeUndefined();
  });

  it('is written after removing old unfinished files of killed processes', async () => {
    await written();
    const [old, recent] = [`${file}.old`, `${file}.recent`];
    for (const draft of [old, recent]) await writeFile(draft, 'half');
    await truncate(old, 1);
    const hoursAgo = new Date(Date.now() - 7_200_000);
    await utimes(old, hoursAgo, hoursAgo);
    const { catalog } = start();
    await catalog.propose(contractFact('c-new', 'new'));
    await catalog.close();
    expect((await readdir(dirname(file))).sort()).toEqual(['catalog.snapshot', 'catalog.snapshot.recent']);
  });

  it('is readable only by its owner', async () => {
    await written();
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });
});

async function append(log: EventLog, fact: object): Promise<void> {
  await log.append(TOPIC.catalog, [{ key: 'k', value: JSON.stringify(fact), headers: {} }]);
}

async function headerOf(file: string): Promise<{ position: number }> {
  const text = await readFile(file, 'utf8');
  return JSON.parse(text.slice(0, text.indexOf('\n'))) as { position: number };
}

/** The same file with another header and a matching checksum. */
function sealed(bytes: Buffer, change: (header: Record<string, unknown>) => object): Buffer {
  const lines = bytes.toString('utf8').split('\n').slice(0, -2);
  const [header = '', ...rows] = lines;
  const above = `${[JSON.stringify(change(JSON.parse(header))), ...rows].join('\n')}\n`;
  const sha256 = createHash('sha256').update(above).digest('hex');
  return Buffer.from(`${above}${JSON.stringify({ sha256 })}\n`);
}
