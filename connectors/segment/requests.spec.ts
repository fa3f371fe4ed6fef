import { readFile } from 'node:fs/promises';
import { type CanonicalEvent, type Delivery, isObject, type JsonObject } from '@tributary/core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sampleDelivery } from '../delivery.fixture.ts';
import { DEFINITIONS, PARTNER_SECRETS, segmentEvent } from './connector.ts';
import { DEDUPLICATION } from './deduplication.ts';
import type { Definition } from './definitions.ts';
import { loadDefinition } from './pack.ts';
import { PackHost } from './pack-process.ts';
import {
  ANSWER,
  EVENTS,
  eventFor,
  readDetails,
  recordFetch,
  runDirectly,
  sampleSubscriptions,
  settingsFor,
  startDirectly,
} from './pack-runs.fixture.ts';
import { describeDestination } from './settings.ts';
import { startVendors } from './vendors.fixture.ts';

/*
 * What each destination sends, by the connector and by its own definition called directly, and the list of it. The default run
 * takes some of them; `TRIBUTARY_TEST_LONG=1 npx vitest run connectors/segment/requests.spec.ts -u` writes the list.
 */
const IS_LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const CHOSEN = IS_LONG ? DEFINITIONS : DEFINITIONS.filter((_, at) => at % 16 === 0);
const PAGE = './deliveries.requests.txt';

interface Sent {
  readonly method: string;
  /** Host and path. */
  readonly url: string;
  readonly body: string;
}

const requests: Sent[] = [];
const vendors = startVendors((response, { method, url, text }) => {
  requests.push({ method, url, body: text });
  response.writeHead(200, { 'content-type': 'application/json' }).end(ANSWER);
});
const secrets = Object.fromEntries(PARTNER_SECRETS.map((name) => [name, 'partner-secret']));
const host = new PackHost({ secrets });
let restoreFetch: () => void;

beforeAll(() => {
  restoreFetch = recordFetch();
  Object.assign(process.env, secrets);
});
afterAll(() => {
  restoreFetch();
  for (const name of PARTNER_SECRETS) delete process.env[name];
});

const unhurried = { signal: new AbortController().signal };

/** What services tell about the account that is connected. */
const CONNECTED = { instanceUrl: 'https://acme.my.salesforce.com', advertiser_ids: ['7'] };

/** Settings as a creation stores them: with the subscriptions of the presets. */
function createdSettings(definition: Definition): JsonObject {
  const { generate } = describeDestination(definition);
  const settings = settingsFor(definition);
  return generate?.(settings, () => new Uint8Array()) ?? settings;
}

interface Row {
  readonly type: string;
  /** For each request, or list of requests, the calls, presets and actions that make it. */
  readonly made: ReadonlyMap<string, readonly string[]>;
  /** All presets, and actions without one. */
  readonly actions: readonly string[];
}

/** A case of the page: subscriptions in the settings, and an event for them. */
interface Case {
  /** Undefined for one that is compared and not shown. */
  readonly column: string | undefined;
  readonly settings: JsonObject;
  readonly subscriptions: readonly {
    subscribe: string;
    partnerAction: string;
    mapping: JsonObject;
    batch?: boolean;
  }[];
  readonly event: CanonicalEvent;
}

/** Four calls and an event of each preset, with the subscriptions of a new destination; then the other actions, one by one. */
function casesOf(definition: Definition): readonly Case[] {
  const details = readDetails(definition.destination);
  const settings = createdSettings(definition);
  const enabled = details.presets
    .map(({ trigger, action, mapping }, at) => ({
      subscribe: trigger,
      partnerAction: action,
      mapping,
      ...writtenAs(settings, at),
    }))
    .filter(({ enabled }) => enabled);
  const ofPresets = details.presets.map(({ name, trigger }) => ({ column: name, event: eventFor(trigger) }));
  const written = [...Object.entries(EVENTS).map(([column, event]) => ({ column, event })), ...ofPresets].map(
    ({ column, event }) => ({ column, settings, subscriptions: enabled, event }),
  );
  const others = sampleSubscriptions(details, true)
    .filter(({ name }) => !details.presets.some((preset) => preset.name === name))
    .map(({ name, ...subscription }) => {
      const { partnerAction: action, mapping } = subscription;
      // Some triggers that the pack proposes take no event.
      const trigger =
        eventFor(subscription.subscribe) === undefined ? 'type = "track"' : subscription.subscribe;
      const own = { ...settings, subscriptions: [{ name, action, trigger, mapping, batch: false }] };
      return {
        column: name,
        settings: own,
        subscriptions: [{ ...subscription, subscribe: trigger }],
        event: eventFor(trigger),
      };
    });
  return [...written, ...others, ...batchCasesOf(definition, settings)].map(({ event, ...one }) => {
    if (event === undefined) throw new Error(`${definition.type}: no event for ${one.column}`);
    return { ...one, event };
  });
}

/** The batch of one event of each action that takes batches. */
function batchCasesOf(definition: Definition, settings: JsonObject) {
  return sampleSubscriptions(readDetails(definition.destination), true)
    .filter(({ partnerAction }) => definition.batches?.[partnerAction] !== undefined)
    .map(({ name, subscribe, partnerAction: action, mapping }) => {
      const trigger = eventFor(subscribe) === undefined ? 'type = "track"' : subscribe;
      const { enable_batching: isOn, ...others } = mapping;
      const own = isOn === undefined ? others : { ...others, enable_batching: true };
      return {
        column: undefined,
        settings: { ...settings, subscriptions: [{ name, action, trigger, mapping: own, batch: true }] },
        subscriptions: [{ subscribe: trigger, partnerAction: action, mapping: own, batch: true }],
        event: eventFor(trigger),
      };
    });
}

test('every destination sends what its own definition makes of an event', async () => {
  const rows: Row[] = [];
  const differences: string[] = [];
  const connectors = [];
  let compared = 0;
  for (const definition of CHOSEN) {
    const connector = vendors.connect(definition, host);
    connectors.push(connector);
    const running = startDirectly(definition.destination, loadDefinition(definition.destination));
    const isToken = ({ url }: Sent) => definition.authorization === 'grant' && /token|login/i.test(url);
    const made = new Map<string, string[]>();
    const columns = new Set<string>();
    for (const { column, settings, subscriptions, event } of casesOf(definition)) {
      requests.length = 0;
      const access = async () => ({ kind: 'token' as const, token: 'token', settings: CONNECTED });
      const target = { id: 'd1', workspaceId: 'w1', version: 1, settings, access };
      const delivery: Delivery = {
        ...sampleDelivery('x1'),
        message_id: 'm-1',
        created_at: event.received_at,
        event,
      };
      const [result] = await connector.deliver(target, [delivery], unhurried);
      const actual = requests.filter((sent) => !isToken(sent));
      const { accessToken, subscriptions: _written, ...stated } = settings;
      const isConnected = definition.authorization === 'connection';
      const own = isConnected ? { ...stated, ...CONNECTED } : stated;
      const isGranted = isConnected || definition.authorization === 'grant';
      const token = isGranted ? 'token' : String(accessToken ?? '');
      const direct: Sent[] = [];
      for (const subscription of subscriptions) {
        const sent = { ...segmentEvent(event), messageId: 'm-1' };
        const outcome = await runDirectly(running, subscription, sent, own, { accessToken: token });
        direct.push(...outcome.requests.map(sentOf));
      }
      // The pack sends the key of the API to any URL of a mapping.
      const isRefused = definition.destination === 'qualtrics' && column === 'triggerXflowWorkflow';
      expect(isRefused).toBe(result?.outcome === 'dead' && result.reason.includes('none of the destination'));
      const [ours, theirs] = [actual, direct.filter((sent) => !isToken(sent))].map((list) =>
        list.map((sent) => comparable(sent, Object.hasOwn(DEDUPLICATION, definition.destination))).sort(),
      );
      compared += actual.length;
      if (!isRefused && JSON.stringify(ours) !== JSON.stringify(theirs))
        differences.push(
          `${definition.type} ${column ?? 'a batch'}\n  ours   ${ours?.join('\n         ')}\n  theirs ${theirs?.join('\n         ')}`,
        );
      const what = madeOf(result, actual);
      if (column === undefined) continue;
      columns.add(column);
      if (what !== undefined) made.set(what, [...(made.get(what) ?? []), column]);
    }
    rows.push({ type: definition.type, made, actions: [...columns].filter((name) => !(name in EVENTS)) });
  }
  await Promise.all(connectors.map((connector) => connector.close()));
  expect(differences).toEqual([]);
  // The list is not one of refusals.
  expect(compared).toBeGreaterThan(IS_LONG ? 800 : 40);
  if (IS_LONG) {
    await expect(pageOf(rows)).toMatchFileSnapshot(PAGE);
    return;
  }
  const page = await readFile(new URL(PAGE, import.meta.url), 'utf8');
  for (const row of rows) expect(page).toContain(`${lineOf(row)}\n`);
}, 300_000);

function sentOf({ method, url, body }: { method: string; url: string; body: string }): Sent {
  const { host: to, pathname, search } = new URL(url);
  return { method, url: `${to}${pathname}${search}`, body };
}

function writtenAs({ subscriptions }: JsonObject, at: number): { enabled: boolean; batch: boolean } {
  const one = Array.isArray(subscriptions) ? subscriptions[at] : undefined;
  return isObject(one)
    ? { enabled: one.enabled === true, batch: one.batch === true }
    : { enabled: false, batch: false };
}

/** A request without what differs at each run, and without the key of deduplication that the connector adds. */
function comparable({ method, url, body }: Sent, isKeyed: boolean): string {
  const steady = (text: string) =>
    text
      .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, '<uuid>')
      .replace(/20[23]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)/g, '<time>')
      .replace(/\bhmac_sign=[0-9a-f]+/g, 'hmac_sign=<of the time>')
      .replace(/\b1[78]\d{8}(\d{3})?(\.\d+)?\b/g, '<time>');
  return steady(`${method} ${url} ${isKeyed ? '' : body}`);
}

const REFUSED = 'refused';

/** The requests of an event; `REFUSED` without any, undefined where no subscription takes the event. */
function madeOf(result: { outcome: string } | undefined, sent: readonly Sent[]): string | undefined {
  if (result?.outcome === 'unwanted') return undefined;
  const made = new Set(sent.map(({ method, url }) => `${method} ${url.replace(/\?.*$/s, '')}`));
  if (made.size === 0) return REFUSED;
  return [...made].sort().join(', ') + (result?.outcome === 'delivered' ? '' : ', then refused');
}

function lineOf({ type, made, actions }: Row): string {
  const named = (names: readonly string[]) =>
    actions.length > 1 && actions.every((action) => names.includes(action))
      ? [...names.filter((name) => !actions.includes(name)), 'every action']
      : names;
  const shown = [...made].map(([what, names]) => `${what}: ${named(names).join(', ')}`);
  return `${type}: ${shown.length === 0 ? 'nothing' : shown.join('; ')}`;
}

function pageOf(rows: readonly Row[]): string {
  const introduction =
    'The requests of each destination of the pack, and what makes each of them: four calls (track, identify, page, group) and an event of each preset, with the subscriptions that a new destination gets; then each action that no preset has, with the defaults of its fields and samples for required ones. A call that is not listed sends nothing; "every action": all presets and all actions without one. Settings and events are samples, each request is answered by an empty 200. "refused": the sample lacks what the action requires, so the event is dead without a request, or after those before "then".';
  return `${introduction}\n\n${rows.map(lineOf).join('\n')}\n`;
}
