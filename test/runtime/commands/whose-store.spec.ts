import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NO_LOGGER, NO_METRICS, newId, TOPIC } from '@tributary/core';
import { checkStores, openCatalog, openEventLog, readConfig, runCli } from '@tributary/infra';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { clusterEnvironment } from '../../helpers/cluster.ts';
import { engines, freshPrefix } from '../../helpers/engines.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { ServerProcess } from '../../helpers/server-process.ts';

type Env = Readonly<Record<string, string>>;

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'tributary-whose-'));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** The start of a role: the id of its installation, and the number of times it opened the profiles. */
async function start(env: Env, act?: (log: Awaited<ReturnType<typeof openEventLog>>) => Promise<unknown>) {
  const config = readConfig(env);
  const log = await openEventLog(config, { logger: NO_LOGGER, metrics: NO_METRICS, dropExpired: false });
  const catalog = openCatalog(config, { log, logger: NO_LOGGER });
  let opened = 0;
  try {
    await log.createTopics();
    await act?.(log);
    const deadline = {
      at: performance.now() + 30_000,
      startTimeoutMs: 30_000,
      logger: NO_LOGGER,
    };
    const check = await checkStores(config, { catalog, log, logger: NO_LOGGER }, deadline, async () => {
      opened++;
    });
    await check.close();
    return { id: catalog.state.installation, opened };
  } finally {
    await catalog.close();
    await log.close();
  }
}

const printed = () => vi.spyOn(process.stdout, 'write').mockReturnValue(true);

describe('stores of SQLite', () => {
  it('of another installation were used: the start names them, their owner, and the remedy', async () => {
    const [one, two] = [{ TRIBUTARY_DATA_DIR: await folder() }, { TRIBUTARY_DATA_DIR: await folder() }];
    const [first, second] = [await start(one), await start(two)];
    expect([first.opened, second.opened]).toEqual([1, 1]);
    expect(first.id).not.toBe(second.id);
    expect(await start(one)).toEqual(first);
    await cp(join(one.TRIBUTARY_DATA_DIR, 'profiles'), join(two.TRIBUTARY_DATA_DIR, 'profiles'), {
      recursive: true,
    });
    const refusal = await start(two).catch((error: Error) => error.message);
    expect(refusal).toContain(join(two.TRIBUTARY_DATA_DIR, 'profiles'));
    expect(refusal).toContain(`belongs to the installation ${first.id} and the catalog is of ${second.id}`);
    expect(refusal).toContain(`tributary adopt-stores --from ${first.id}`);
    const dev = new ServerProcess(['dev'], { ...two, LOG_LEVEL: 'warn' });
    expect(await dev.ended()).toBe(1);
    expect(dev.log).toContain(`tributary adopt-stores --from ${first.id}`);

    const output = printed();
    expect(await runCli(['adopt-stores', '--from', newId()], { ...two })).toBe(1);
    expect(await runCli(['adopt-stores', '--from', first.id ?? ''], { ...two })).toBe(0);
    output.mockRestore();
    expect(await start(two)).toEqual({ id: second.id, opened: 1 });
  });

  it('that were emptied have no owner, and are marked again', async () => {
    const env = { TRIBUTARY_DATA_DIR: await folder() };
    const first = await start(env);
    await rm(join(env.TRIBUTARY_DATA_DIR, 'profiles'), { recursive: true });
    expect(await start(env)).toEqual(first);
  });

  it('and events that were there before the catalog were taken for its own', async () => {
    const env = { TRIBUTARY_DATA_DIR: await folder() };
    const refusal = start(env, (log) => log.append(TOPIC.accepted, [{ key: 'k', value: '{}', headers: {} }]));
    await expect(refusal).rejects.toThrow(
      'the topic events.accepted has records, although the catalog is new',
    );
    const output = printed();
    expect(await runCli(['adopt-stores', '--from', 'none'], env)).toBe(0);
    output.mockRestore();
    expect(await start(env)).toMatchObject({ opened: 1 });
  });

  it('are named by one of the processes that start at once on fresh ones', async () => {
    const env = { TRIBUTARY_DATA_DIR: await folder() };
    const all = await Promise.all([start(env), start(env), start(env)]);
    expect(new Set(all.map(({ id }) => id)).size).toBe(1);
  });
});

describe.skipIf(!engines())('stores of the engines of the run', () => {
  async function installation(): Promise<Env> {
    const prefix = freshPrefix();
    onTestFinished(() => removePrefix(prefix));
    return { ...clusterEnvironment(prefix), TRIBUTARY_DATA_DIR: await folder() };
  }

  it('of another installation were used by a fresh catalog: both are named, and given over by their id', async () => {
    const used = await installation();
    const all = await Promise.all([start(used), start(used)]);
    const before = all[0].id;
    expect(all).toEqual([
      { id: before, opened: 1 },
      { id: before, opened: 1 },
    ]);
    // A fresh catalog in front of a used Redis and Elasticsearch.
    const { KAFKA_BROKERS: _, SCHEMA_REGISTRY_URL: __, ...others } = used;
    const env = { ...others, TRIBUTARY_DATA_DIR: await folder() };
    const refusal = await start(env).catch((error: Error) => error.message);
    expect(refusal).toMatch(/Redis \(key .*installation\) belongs to the installation/);
    expect(refusal).toMatch(/Elasticsearch \(index .*profiles\) belongs to the installation/);
    expect(refusal).toContain(`tributary adopt-stores --from ${before}`);
    expect(await start(used)).toMatchObject({ id: before });
    const output = printed();
    expect(await runCli(['adopt-stores', '--from', before ?? ''], env)).toBe(0);
    output.mockRestore();
    const after = await start(env);
    expect(after).toMatchObject({ opened: 1 });
    expect(after.id).not.toBe(before);
    await expect(start(used)).rejects.toThrow(`belongs to the installation ${after.id}`);
  });

  it('that do not answer delay no start; the profiles are opened once they were checked', async () => {
    const env = await installation();
    await start(env);
    expect(await start({ ...env, ELASTICSEARCH_URL: 'http://127.0.0.1:9' })).toMatchObject({ opened: 0 });
    expect(await start({ ...env, REDIS_URL: 'redis://127.0.0.1:9' })).toMatchObject({ opened: 1 });
  });
});
