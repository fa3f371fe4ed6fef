import { setTimeout as sleep } from 'node:timers/promises';
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openEventLog, readConfig } from '@tributary/infra';
import { freePort } from '../engines/engine-process.ts';
import { type Client, eventually } from '../helpers/client.ts';
import { type EventStream, openEventStream } from '../helpers/event-stream.ts';
import type { Tributary } from '../helpers/tributary.ts';
import { forwardTo, Receivers } from '../helpers/webhook.ts';

/** Only the last of these matches, so that an event with a long list takes long to validate. */
const ALTERNATIVES = [
  { type: 'string' },
  { type: 'boolean' },
  { maximum: -1 },
  { type: 'array' },
  { type: 'integer' },
];
const EXPENSIVE = { list: Array.from({ length: 850 }, (_, n) => n % 5) };
const PAUSE_MS = 200;
/** Expensive events of one round: at the half millisecond that the bounds on a contract allow, twice a share of a thread. */
const FLOOD = 80;
const MADE_WITHIN_MS = 180_000;

/** Faults in the traffic, beside its valid part. */
export interface Faults {
  /** Events for a destination that answers 400, one that nobody listens at, and one at a refused address. */
  readonly destinations?: boolean;
  /** Events that fail their contract, and a transformation that throws. */
  readonly events?: boolean;
  /** A second workspace that takes more than its share of validate. */
  readonly flood?: boolean;
  /** Requests without a valid key, and invalid calls of an SDK. */
  readonly requests?: boolean;
}

type TrafficTarget = Pick<
  Tributary,
  'url' | 'environment' | 'workspaceId' | 'writeKey' | 'idToken' | 'owner' | 'producer'
>;

/** Events of a workspace that use every part of the pipeline, and faults on demand. */
export class Traffic {
  readonly #tributary: TrafficTarget;
  readonly #receivers = new Receivers();
  #stream: EventStream | undefined;
  #noisy: Client | undefined;
  #sent = 0;
  #sending: Promise<void> | undefined;
  #faults: Faults = {};
  #over = false;

  constructor(tributary: TrafficTarget) {
    this.#tributary = tributary;
  }

  /** Makes destinations, rules, a transformation and a contract, then sends events until `close`. */
  async start(): Promise<void> {
    const tributary = this.#tributary;
    const { owner } = tributary;
    const good = await this.#receivers.open();
    const refusing = await this.#receivers.open((_call, response) => response.writeHead(400).end());
    const goodId = await forwardTo(tributary.owner, good.url, 'Ordinary');
    const urls = {
      Refused: refusing.url,
      Down: `http://127.0.0.1:${await freePort()}/`,
      // Not in TRIBUTARY_EGRESS_ALLOW, and of this machine all the same.
      Forbidden: `http://127.0.0.2:${await freePort()}/`,
    };
    for (const [event, url] of Object.entries(urls)) await forwardTo(tributary.owner, url, event);
    for (const [name, body] of [
      ['Transformed', 'event.properties.seen = true; return event;'],
      ['Throwing', 'if (event.properties.bad) throw new Error("no"); return event;'],
    ] as const)
      await this.#transformed(goodId, name, body);
    await contract(owner, 'Checked', { total: { type: 'number' } });
    const { id } = await owner.post<{ id: string }>('/workspaces', { name: 'Noisy' });
    const noisy = owner.with({ workspaceId: id });
    await contract(noisy, 'Expensive', { list: { items: { anyOf: ALTERNATIVES } } });
    const key = { name: 'noise', environment: 'production' };
    this.#noisy = noisy.with({ token: (await noisy.post<{ key: string }>('./event-keys', key)).key });
    const { url, idToken: token, workspaceId } = tributary;
    this.#stream = await openEventStream(url, { token, workspaceId, discard: true });
    this.#sending = this.#send();
  }

  /** From now on with these faults. */
  set(faults: Faults): void {
    this.#faults = faults;
  }

  /** Appends a record that no event is to a received topic: validate gives it up. */
  async poison(): Promise<void> {
    const config = readConfig(this.#tributary.environment);
    const log = await openEventLog(config, { logger: NO_LOGGER, metrics: NO_METRICS, dropExpired: false });
    const entry = { key: 'poison', value: '"no event"', headers: { 'catalog-position': '0' } };
    await log.append('events.production', [entry]);
    await log.close();
  }

  async close(): Promise<void> {
    this.#over = true;
    await this.#sending;
    this.#stream?.close();
    await this.#receivers.close();
  }

  async #transformed(destinationId: string, name: string, body: string): Promise<void> {
    const { owner } = this.#tributary;
    const { id } = await made<{ id: string }>(owner, './event-transformations', {
      name,
      source_code: `function transform(event) { ${body} }`,
      test_input: { type: 'track', event: name, user_id: 'u', properties: {} },
      test_output: {
        type: 'track',
        event: name,
        user_id: 'u',
        properties: name === 'Transformed' ? { seen: true } : {},
      },
    });
    await made(owner, './event-forwarding-rules', {
      name,
      destination_id: destinationId,
      event_types: ['track'],
      event_names: [name],
      transformation_id: id,
      enabled: true,
    });
  }

  /** A few events of each kind every fifth of a second. An engine that is away refuses them, and they are sent again. */
  async #send(): Promise<void> {
    while (!this.#over) {
      const before = Date.now();
      await this.#round(this.#faults).catch(() => undefined);
      await sleep(Math.max(0, PAUSE_MS - (Date.now() - before)));
    }
  }

  async #round({ destinations, events, flood, requests }: Faults): Promise<void> {
    const { producer, url } = this.#tributary;
    const user_id = `u${this.#sent++ % 50}`;
    const track = (event: string, properties: object = {}) =>
      producer.call('POST', './events/track', { event, user_id, properties });
    await Promise.all([
      track('Ordinary'),
      track('Transformed'),
      track('Throwing'),
      track('Checked', { total: 1 }),
      producer.call('POST', './events/identify', { user_id, traits: { email: `${user_id}@x.example` } }),
    ]);
    if (destinations) await Promise.all(['Refused', 'Down', 'Forbidden'].map((name) => track(name)));
    if (events) await Promise.all([track('Checked', { total: 'much' }), track('Throwing', { bad: true })]);
    if (flood)
      await this.#noisy?.call('POST', './events/batch', {
        batch: Array(FLOOD).fill({ type: 'track', event: 'Expensive', user_id, properties: EXPENSIVE }),
      });
    if (requests) {
      // After some the address is answered with 429.
      const nobody = { headers: { authorization: 'Bearer nobody' } };
      await Promise.all(Array.from({ length: 10 }, () => fetch(`${url}/api/v1/workspaces`, nobody)));
      await fetch(`${url}/v1/track`, {
        method: 'POST',
        headers: {
          authorization: `Basic ${Buffer.from(`${this.#tributary.writeKey}:`).toString('base64')}`,
          'content-type': 'application/json',
        },
        body: '{"userId":"u"}',
      });
    }
  }
}

/** Repeats a call that is answered with 503, as on a machine that others keep busy. */
async function made<T>(client: Client, path: string, body: object): Promise<T> {
  const answer = await eventually(
    () => client.call<T>('POST', path, body),
    ({ status }) => status !== 503,
    MADE_WITHIN_MS,
  );
  if (answer.status !== 201)
    throw new Error(`POST ${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  return answer.body;
}

async function contract(client: Client, name: string, properties: object): Promise<void> {
  await made(client, './event-contracts', {
    name,
    event_type: 'track',
    event_name: name,
    description: null,
    schema_definition: { properties },
    enforcement_mode: 'block',
    undeclared_fields: 'allow',
  });
}
