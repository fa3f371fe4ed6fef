import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type EventLog, type LogEntry, NO_LOGGER, NO_METRICS, TOPIC } from '@tributary/core';
import { openEventLog, readConfig } from '@tributary/infra';
import { beforeEach, describe, expect, it } from 'vitest';
import { clusterEnvironment } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

type Environment = Readonly<Record<string, string>>;

/** The commands use the log by its port alone; they are needed on Kafka. */
const onKafka = engines() !== undefined;

describe('The catalog', () => {
  let folder: string;
  let from: Environment;
  let to: Environment;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tributary-catalog-'));
    const prefixes = [freshPrefix(), freshPrefix()] as const;
    const environmentOf = (prefix: string) => ({
      ...(onKafka ? clusterEnvironment(prefix) : {}),
      TRIBUTARY_DATA_DIR: join(folder, prefix),
    });
    [from, to] = [environmentOf(prefixes[0]), environmentOf(prefixes[1])];
    return async () => {
      if (onKafka) for (const prefix of prefixes) await removePrefix(prefix);
      rmSync(folder, { recursive: true, force: true });
    };
  });

  async function withLog<T>(environment: Environment, work: (log: EventLog) => Promise<T>): Promise<T> {
    const log = await openEventLog(readConfig(environment), { logger: NO_LOGGER, metrics: NO_METRICS });
    try {
      await log.createTopics();
      return await work(log);
    } finally {
      await log.close();
    }
  }

  /** Records as large and as different as facts are; their content does not matter to a transfer. */
  const append = (environment: Environment, count: number, padding = '') =>
    withLog(environment, async (log) => {
      for (let n = 0; n < count; n += 100)
        await log.append(
          TOPIC.catalog,
          Array.from({ length: Math.min(100, count - n) }, (_, i) => ({
            key: `entity-${(n + i) % 7}`,
            headers: { 'catalog-position': String(n) },
            value: JSON.stringify({ v: 1, type: 'test', n: n + i, text: `ü\u2028"${padding}` }),
          })),
        );
    });

  const stored = (environment: Environment) =>
    withLog(environment, async (log) => {
      const [first, end] = [await log.first(TOPIC.catalog, 0), await log.end(TOPIC.catalog, 0)];
      const found: Omit<LogEntry, 'timestamp'>[] = [];
      for (let at = first; at < end; ) {
        const { entries, next } = await log.read(TOPIC.catalog, 0, at);
        found.push(...entries.map(({ timestamp: _, ...entry }) => entry));
        at = next;
      }
      return { first, end, found };
    });

  async function exported(): Promise<string> {
    const ran = await ranHere(['catalog', 'export'], from);
    expect(ran).toMatchObject({ code: 0, log: '' });
    const file = join(folder, 'catalog.ndjson');
    writeFileSync(file, ran.output);
    return file;
  }
  const imported = (file: string) => ranHere(['catalog', 'import', file], to);

  it('is exported and imported under the same offsets, and a second import changes nothing', async () => {
    await append(from, 1_234);
    const file = await exported();
    expect(await imported(file)).toEqual({
      code: 0,
      output: 'the catalog ends at 1234 now; 1234 records were appended\n',
      log: '',
    });
    expect(await stored(to)).toEqual(await stored(from));
    expect((await imported(file)).output).toBe('the catalog ends at 1234 now; 0 records were appended\n');
  });

  it('keeps its offsets if facts were dropped before the first one', async () => {
    await append(from, 1_300);
    await withLog(from, (log) => log.dropBelow(TOPIC.catalog, 0, 1_200));
    const file = await exported();
    expect(await imported(file)).toMatchObject({
      code: 0,
      output: expect.stringContaining('100 records were'),
    });
    expect(await stored(to)).toEqual(await stored(from));
    expect(await stored(to)).toMatchObject({ first: 1_200, end: 1_300 });
    expect((await imported(file)).output).toBe('the catalog ends at 1300 now; 0 records were appended\n');
  });

  it('is complete after killed imports', async () => {
    await append(from, 3_000, 'x'.repeat(2_000));
    await withLog(from, (log) => log.dropBelow(TOPIC.catalog, 0, 600));
    const file = await exported();
    for (let kill = 0; kill < 3; kill++) {
      const command = new ServerProcess(['catalog', 'import', file], to);
      await sleep(500 + Math.random() * 1_500);
      await command.kill();
    }
    expect(await imported(file)).toMatchObject({ code: 0 });
    expect(await stored(to)).toEqual(await stored(from));
  });

  it('refuses a truncated, damaged or foreign file, and a topic with another catalog', async () => {
    await append(from, 20);
    const file = await exported();
    const text = readFileSync(file, 'utf8');
    const refused = async (content: string, words: string) => {
      writeFileSync(file, content);
      const ran = await imported(file);
      expect(ran).toMatchObject({ code: 1, output: '' });
      expect(ran.log).toContain(words);
      expect(ran.log.trimEnd().split('\n')).toHaveLength(1);
    };
    await refused(text.split('\n').slice(0, -2).join('\n'), 'the file is incomplete');
    await refused(text.slice(0, -100), 'is damaged');
    await refused(text.replace('\\"n\\":7', '\\"n\\":8'), 'its checksum is another');
    await refused(text.replace(/\{"offset":7,[^\n]*\n/, ''), 'has no record 7');
    await refused('{"message_id":"m"}\n', 'is no export of a catalog');
    await refused('', 'the file is incomplete');
    expect(await stored(to)).toMatchObject({ end: 0 });

    await append(to, 3, 'another');
    await refused(text, 'holds another catalog, up to 3');
    expect(await stored(to)).toMatchObject({ end: 3 });
  });
});
