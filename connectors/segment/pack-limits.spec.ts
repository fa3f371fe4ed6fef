import { readdirSync, readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CanonicalEvent, type Connector, type JsonObject, NO_METRICS } from '@tributary/core';
import { afterAll, expect, test } from 'vitest';
import { createEgressGuard, createNameLookups } from '../egress/guard.ts';
import { createSegmentConnector, DEFINITIONS, PARTNER_SECRETS, segmentKinds } from './connector.ts';
import { PackHost } from './pack-process.ts';
import { EVENTS, readDetails, settingsFor } from './pack-runs.fixture.ts';
import { describeDestination } from './settings.ts';
import { definitionOf } from './vendors.fixture.ts';

const secrets = Object.fromEntries(PARTNER_SECRETS.map((name) => [name, 'partner-secret']));
const host = new PackHost({ secrets });
const egress = createEgressGuard({ allowed: [], resolve: createNameLookups(), metrics: NO_METRICS });
const context = { egress, dataFolder: '/nonexistent', timeoutMs: 60_000, clock: Date.now };
const connectors: Connector[] = [];
afterAll(() => Promise.all(connectors.map((connector) => connector.close())));

const { signal } = new AbortController();

// Before others: what is known of a kind is kept.
test('all kinds are described in one process, within its memory, and it ends with the catalog', async () => {
  const context = { egress: { ...egress }, dataFolder: '/nonexistent', timeoutMs: 60_000, clock: Date.now };
  const children = () => childrenOf(process.pid);
  const before = await children();
  const kinds = segmentKinds(secrets);
  for (const { prepare } of kinds) await prepare?.(context);
  const started = (await children()).filter((pid) => !before.includes(pid));
  expect(started).toHaveLength(1);
  for (const pid of started) {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    expect(Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024).toBeLessThan(400);
  }
  await kinds[0]?.close?.(context);
  expect((await children()).filter((pid) => started.includes(pid))).toEqual([]);
}, 120_000);

/** Processes that this one has started. */
async function childrenOf(parent: number): Promise<readonly number[]> {
  const threads = await readdir(`/proc/${parent}/task`);
  const lists = await Promise.all(
    threads.map((thread) => readFile(`/proc/${parent}/task/${thread}/children`, 'utf8').catch(() => '')),
  );
  return lists.flatMap((list) =>
    list
      .split(' ')
      .filter((pid) => pid !== '')
      .map(Number),
  );
}

/** Previews for the comparison of processor times; in the default run a few. */
const PREVIEWS = process.env.TRIBUTARY_TEST_LONG === undefined ? 150 : 1_000;
const IDLE_MS = 2_000;

test('one workspace with every kind stays in one process, within its memory, and its processor time is that of what it does', async () => {
  const pids = new Set<number | undefined>();
  for (const definition of DEFINITIONS) {
    const connector = createSegmentConnector(context, definition, host);
    connectors.push(connector);
    const settings = settingsFor(definition);
    readDetails(definition.destination);
    const { generate } = describeDestination(definition);
    const target = {
      id: 'd',
      workspaceId: 'w1',
      version: 1,
      settings: generate?.(settings, () => new Uint8Array()) ?? settings,
    };
    const event: CanonicalEvent = EVENTS.track;
    const previews = await connector.preview?.(target, event, { signal });
    expect(Array.isArray(previews), definition.type).toBe(true);
    pids.add(host.pidOf('w1'));
  }
  expect(pids.size).toBe(1);
  const [pid] = pids;
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const peakMib = Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024;
  // The process is killed at 512 MiB.
  expect(peakMib).toBeLessThan(400);

  const before = processorSeconds(pid);
  await sleep(IDLE_MS);
  expect(processorSeconds(pid) - before).toBeLessThan((0.02 * IDLE_MS) / 1_000);
  const own = new PackHost({ secrets });
  const alone = await secondsOfPreviews(own, 'w3');
  const among = await secondsOfPreviews(host, 'w1');
  // A busy machine stretches processor time too.
  expect(among / alone).toBeLessThan(2);
}, 240_000);

/** The processor time of a process for previews of one kind. */
async function secondsOfPreviews(packs: PackHost, workspaceId: string): Promise<number> {
  const definition = definitionOf('braze');
  const connector = createSegmentConnector(context, definition, packs);
  connectors.push(connector);
  const settings = settingsFor(definition);
  const { generate } = describeDestination(definition);
  const stated = generate?.(settings, () => new Uint8Array()) ?? settings;
  const target = { id: 'd', workspaceId, version: 1, settings: stated };
  const preview = async (count: number) => {
    for (let n = 0; n < count; n++) await connector.preview?.(target, EVENTS.track, { signal });
  };
  await preview(PREVIEWS);
  const pid = packs.pidOf(workspaceId);
  const before = processorSeconds(pid);
  await preview(PREVIEWS);
  expect(packs.pidOf(workspaceId)).toBe(pid);
  return processorSeconds(pid) - before;
}

/** Of a process with all its threads, since its start. */
function processorSeconds(pid: number | undefined): number {
  const threads = `/proc/${pid}/task`;
  return readdirSync(threads)
    .map((thread) => Number(readFileSync(`${threads}/${thread}/schedstat`, 'utf8').split(' ')[0]))
    .reduce((sum, nanoseconds) => sum + nanoseconds / 1e9, 0);
}

test('a preview shows no secret, whatever the mapping makes of the settings', async () => {
  const key = 'key/0123+456789abcdef';
  const definition = definitionOf('customerio');
  const connector = createSegmentConnector(context, definition, host);
  connectors.push(connector);
  const subscriptions = [
    {
      action: 'trackEvent',
      trigger: 'type = "track"',
      mapping: {
        person_id: key,
        name: { '@template': `${key} {{event}}` },
        timestamp: { '@path': '$.timestamp' },
      },
    },
  ];
  const settings = { siteId: 'site-0123456789', apiKey: key, accountRegion: 'EU 🇪🇺', subscriptions };
  const event = { ...EVENTS.track, properties: { echoed: key, encoded: encodeURIComponent(key) } };
  const shown = await connector.preview?.({ id: 'd', workspaceId: 'w1', version: 1, settings }, event, {
    signal,
  });
  expect(shown).toMatchObject([{ matches: true, error: null, requests: [{ method: 'POST' }] }]);
  const text = JSON.stringify(shown);
  for (const form of [key, encodeURIComponent(key), btoa(`site-0123456789:${key}`), btoa(key)])
    expect(text).not.toContain(form);
});

test('a preview whose mapping does not end is killed, and the next one runs', async () => {
  const definition = definitionOf('braze');
  const connector = createSegmentConnector(context, definition, host);
  connectors.push(connector);
  const tenfold = { replacement: 'b'.repeat(10), pattern2: 'b', replacement2: 'a'.repeat(10) };
  const long = Array.from({ length: 4 }).reduce<JsonObject>(
    (value) => ({ '@replace': { pattern: 'a', ...tenfold, value } }),
    { '@template': 'a'.repeat(100) },
  );
  const fields = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`k${n}`, long]));
  const settings = (properties: JsonObject): JsonObject => ({
    ...settingsFor(definition),
    subscriptions: [
      {
        action: 'trackEvent',
        trigger: 'type = "track"',
        mapping: { name: 'n', time: '2026-01-01T00:00:00Z', external_id: 'u', properties },
      },
    ],
  });
  const target = (properties: JsonObject) => ({
    id: 'd',
    workspaceId: 'w2',
    version: 1,
    settings: settings(properties),
  });
  const late = AbortSignal.timeout(3_000);
  await expect(connector.preview?.(target(fields), EVENTS.track, { signal: late })).rejects.toThrow();
  expect(await connector.preview?.(target({}), EVENTS.track, { signal })).toMatchObject([{ matches: true }]);
}, 60_000);
