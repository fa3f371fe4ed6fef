import { randomBytes } from 'node:crypto';
import { hashKey, makeKey, NO_LOGGER, NO_METRICS, retryTopic, TOPIC } from '@tributary/core';
import { openEventLog, readConfig } from '@tributary/infra';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Client, eventually } from '../../helpers/client.ts';
import { clusterEnvironment } from '../../helpers/cluster.ts';
import { freshPrefix } from '../../helpers/engines.ts';
import { Planted } from '../../helpers/planted.ts';
import { removePrefix } from '../../helpers/remove-prefix.ts';
import { onCluster, startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

const prefix = freshPrefix();

interface Made {
  readonly id: string;
  readonly key: string;
}

/** Credentials never appear in answers; values of events appear only to callers with access to the events. */
describe('Secrets', () => {
  /** Must appear only in the answer that issued them. */
  const credentials = new Planted();
  /** Must stay in the catalog. */
  const hidden = new Planted();
  /** Values of events: may appear in an event, and nowhere else. */
  const values = new Planted();
  let tributary: Tributary;
  let webhook: Webhook;
  let owner: Client;
  /** Every answer that was no success. */
  const refusals: string[] = [];
  let dead: string;

  beforeAll(async () => {
    const sealing = randomBytes(32).toString('base64');
    credentials.keep('the key that seals', sealing);
    tributary = await startTributary({
      env: {
        LOG_LEVEL: 'trace',
        TRIBUTARY_RETRY_SCHEDULE: '100ms',
        TRIBUTARY_RETRY_EXPIRY: '1s',
        TRIBUTARY_SECRET_KEYS: `planted:${sealing}`,
        ...(onCluster ? { TRIBUTARY_PREFIX: prefix } : {}),
      },
    });
    owner = tributary.owner;
    credentials.keep('an ID token', tributary.idToken);
    credentials.keep('the first write key', tributary.writeKey);
    webhook = await startWebhook(({ headers, text }, response) => {
      // A destination that echoes the headers it received, along with its signing secret.
      const status = text.includes('"attempt":1') ? 500 : 400;
      response.writeHead(status).end(JSON.stringify({ headers, secret: webhookSecret }));
    });
    await makeEverything();
    await useEverything();
    await askForTrouble();
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
    if (onCluster) await removePrefix(prefix);
  });

  const webhookSecret = credentials.keep('a webhook’s secret', `whsec_${randomBytes(32).toString('base64')}`);
  const password = credentials.make('a password in a header');
  const settings = () => ({
    url: webhook.url,
    secret: webhookSecret,
    headers: { authorization: `Basic ${password}`, 'x-key': credentials.make('a header') },
  });
  const keys: { api: Made; write: Made; revokedApi: Made; revokedWrite: Made } = {} as never;

  async function makeEverything(): Promise<void> {
    const make = async (what: string, list: string, body: object) => {
      const made = await owner.post<Made>(list, { name: what, ...body });
      credentials.keep(what, made.key);
      hidden.keep(`the hash of ${what}`, hashKey(made.key));
      return made;
    };
    keys.api = await make('an API key', './api-keys', { role: 'admin' });
    keys.write = await make('a write key', './event-keys', { environment: 'production' });
    keys.revokedApi = await make('a revoked API key', './api-keys', {});
    keys.revokedWrite = await make('a revoked write key', './event-keys', { environment: 'development' });
    await owner.call('DELETE', `./api-keys/${keys.revokedApi.id}`);
    await owner.call('DELETE', `./event-keys/${keys.revokedWrite.id}`);

    const destination = await owner.post<Made>('./destinations', {
      name: 'hook',
      type: 'webhook',
      settings: { ...settings(), secret: credentials.keep('its first secret', newSecret()) },
    });
    await owner.put(`./destinations/${destination.id}`, {
      name: 'hook',
      type: 'webhook',
      settings: settings(),
    });
    const generated = await owner.post<{ settings: { secret: string } }>('./destinations', {
      name: 'another',
      type: 'webhook',
      settings: { url: webhook.url },
    });
    credentials.keep('a secret that was made', generated.settings.secret);
    const failing = await owner.post<Made>('./event-transformations', {
      name: 'throws what it sees',
      source_code: `function transform(event) {
        if (event.traits.n < 3) JSON.parse(event.traits.text);
        throw new Error('cannot take ' + event.user_id + ': ' + JSON.stringify(event.traits));
      }`,
      test_input: null,
      test_output: null,
    });
    await owner.put(`./event-transformations/${failing.id}`, {
      name: 'throws what it sees',
      source_code: `function transform(event) {
        if (event.properties?.test) return event;
        if (event.traits.n < 3) JSON.parse(event.traits.text);
        throw new Error('cannot take ' + event.user_id + ': ' + JSON.stringify(event.traits));
      }`,
      test_input: { properties: { test: true } },
      test_output: { properties: { test: true } },
    });
    const rule = (name: string, event_types: string[], transformation_id: string | null) =>
      owner.post('./event-forwarding-rules', {
        name,
        destination_id: destination.id,
        event_types,
        event_names: [],
        transformation_id,
        enabled: true,
      });
    await rule('as it is', ['track'], null);
    await rule('transformed', ['identify'], failing.id);
    const contract = (name: string, enforcement_mode: string, event_type: string) =>
      owner.post('./event-contracts', {
        name,
        event_type,
        event_name: event_type === 'track' ? 'Watched' : '',
        schema_definition: {
          properties: {
            email: { type: 'number' },
            plan: { type: 'string', enum: ['pro'] },
            zip: { type: 'string', pattern: '^[0-9]+$' },
            day: { type: 'string', format: 'date' },
            text: { type: 'string', maxLength: 3 },
          },
        },
        enforcement_mode,
        undeclared_fields: 'warn',
      });
    await contract('watches', 'block', 'track');
    await contract('warns', 'warn', 'identify');
  }

  const violating = () =>
    Object.fromEntries(['email', 'plan', 'zip', 'day', 'text'].map((name) => [name, values.make(name)]));

  async function useEverything(): Promise<void> {
    const producer = owner.with({ token: keys.write.key });
    const user_id = values.make('a user id');
    await producer.post('./events/track', { event: 'Watched', user_id, properties: violating() });
    await producer.post('./events/track', {
      event: 'Free',
      user_id,
      properties: { free: values.make('free') },
    });
    const batch = Array.from({ length: 40 }, (_, n) => ({
      type: 'identify',
      user_id,
      traits: { n, ...violating() },
    }));
    await producer.post('./events/batch', { batch });
    await owner.with({ token: keys.api.key }).get('./sources');
    await eventually(
      async () => (await owner.get<readonly unknown[]>('./event-volume')).length,
      (count) => count >= 2,
    );
    const found = await eventually(
      () => owner.get<readonly (Made & { cause: string })[]>('./deliveries?status=dead&limit=1000'),
      (list) =>
        list.some(({ cause }) => cause === 'destination') &&
        list.some(({ cause }) => cause === 'transformation'),
    );
    const details = await Promise.all(found.map(({ id }) => owner.get(`./deliveries/${id}`)));
    dead = JSON.stringify([found, details]);
    await eventually(
      () => owner.get<readonly unknown[]>('./audit-log?actor=route'),
      (list) => list.length >= 1,
    );
  }

  async function askForTrouble(): Promise<void> {
    const refused = async (client: Client, method: string, path: string, body?: unknown, headers = {}) => {
      const answer = await client.call(method, path, body, headers);
      expect(answer.status, `${method} ${path}`).toBeGreaterThanOrEqual(400);
      refusals.push(JSON.stringify([answer.body, answer.headers]));
    };
    const producer = owner.with({ token: keys.write.key });
    const forged = credentials.keep('a key nobody made', makeKey('api_key', randomBytes(32)).raw);
    const tampered = credentials.keep(
      'a tampered token',
      `${tributary.idToken.slice(0, -12)}${randomBytes(6).toString('hex')}`,
    );
    for (const token of [
      forged,
      tampered,
      credentials.make('nonsense'),
      keys.revokedApi.key,
      keys.revokedWrite.key,
    ])
      await refused(owner.with({ token }), 'GET', './sources');
    await refused(producer, 'GET', './sources');
    await refused(owner.with({ token: keys.api.key }), 'POST', './events/track', {
      event: 'E',
      user_id: 'u',
    });
    await refused(owner, 'GET', '/workspaces', undefined, {
      authorization: `Basic ${credentials.make('basic')}`,
    });
    const value = () => values.make('a value of a bad request');
    const wrong = { user_id: { deep: value() }, event: value(), properties: value(), timestamp: value() };
    await refused(producer, 'POST', './events/track', wrong);
    await refused(producer, 'POST', './events/track', { event: 'E', user_id: 'u', timestamp: value() });
    await refused(producer, 'POST', './events/track', {
      event: 'E',
      user_id: 'u',
      message_id: value().repeat(9),
    });
    await refused(producer, 'POST', './events/track', {
      event: 'E',
      user_id: 'u',
      properties: { big: value().repeat(2_000) },
    });
    await refused(producer, 'POST', './events/track?check=contract', {
      event: 'Watched',
      user_id: value(),
      properties: violating(),
    });
    await refused(producer, 'POST', './events/track', value(), { 'content-type': 'text/plain' });
    const bad = await producer.call('POST', './events/batch?check=contract', {
      batch: [
        { type: value(), user_id: value() },
        { type: 'track', event: 'Watched', user_id: 'u', properties: violating() },
        { type: 'track', ...wrong },
      ],
    });
    expect(bad.body).toMatchObject({ accepted: 0 });
    refusals.push(JSON.stringify(bad.body));
    const hook = (broken: object) => ({ name: 'x', type: 'webhook', settings: { ...settings(), ...broken } });
    await refused(owner, 'POST', './destinations', hook({ secret: credentials.make('no secret') }));
    await refused(
      owner,
      'POST',
      './destinations',
      hook({ url: `http://u:${credentials.make('url')}@localhost/` }),
    );
    await refused(
      owner,
      'POST',
      './destinations',
      hook({ headers: { host: credentials.make('a forbidden header') } }),
    );
    await refused(owner, 'POST', './destinations', hook({ headers: { x: [credentials.make('a list')] } }));
    await refused(owner, 'POST', './destinations', hook({ smtp: { password: credentials.make('smtp') } }));
    await refused(owner, 'POST', './api-keys', { name: 'x', expires_at: value() });
    await refused(owner, 'GET', `./event-volume?hours=${value()}`);
    await refused(owner, 'GET', `./audit-log?since=${value()}`);
    await refused(owner, 'GET', `./sources/${value()}`);
    await refused(owner, 'GET', `/workspaces/${value()}`);
    const received = credentials.make('a secret of webhooks that are received');
    const source = await owner.post<Made>('./sources', {
      name: 'a service',
      type: 'service',
      webhook: { kind: 'github', secrets: [received] },
    });
    await owner.call('PATCH', `./sources/${source.id}`, { webhook: { event: '/event' } });
    const address = { name: 'an address', environment: 'production', source_id: source.id };
    const { key } = await owner.post<Made>('./event-keys', { ...address, webhooks_only: true });
    credentials.keep('the write key of an address', key);
    const origin = new URL(tributary.url).origin;
    for (const path of [`${key}/github`, `${key}/stripe`, `${key}x/github`, `${key}`, `${key}/github/x`]) {
      const answer = await fetch(`${origin}/webhooks/${path}`, { method: 'POST', body: '{}' });
      expect(answer.status).toBeGreaterThanOrEqual(400);
      refusals.push(JSON.stringify([await answer.text(), ...answer.headers]));
    }
    const text = await fetch(`${tributary.url}/api/v1/workspaces`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tributary.idToken}`, 'content-type': 'application/json' },
      body: `{"name": "${value()}`,
    });
    refusals.push(await text.text());
    expect(text.status).toBe(400);
  }

  /** Every entry of a topic that is not public. */
  async function entriesOf(topic: string): Promise<string> {
    const environment = onCluster ? clusterEnvironment(prefix) : { TRIBUTARY_DEV_ISSUER: '1' };
    const config = readConfig({
      ...environment,
      TRIBUTARY_DATA_DIR: tributary.folder,
      TRIBUTARY_RETRY_SCHEDULE: '100ms',
    });
    const log = await openEventLog(config, { logger: NO_LOGGER, metrics: NO_METRICS, dropExpired: false });
    try {
      const texts: string[] = [];
      for (let partition = 0; partition < (log.topics.get(topic)?.partitions ?? 0); partition++) {
        const end = await log.end(topic, partition);
        for (let from = 0; from < end; ) {
          const { entries, next } = await log.read(topic, partition, from);
          texts.push(...entries.map((entry) => JSON.stringify(entry)));
          from = next;
        }
      }
      expect(texts.length).toBeGreaterThan(0);
      return texts.join('\n');
    } finally {
      await log.close();
    }
  }

  const secretsIn = (text: string) => [...credentials.in(text), ...values.in(text)];
  /** Also finds other traces of secrets: hidden texts, and sealed values. */
  const tracesIn = (text: string) => [
    ...secretsIn(text),
    ...hidden.in(text),
    ...(text.includes('$sealed') ? ['something sealed'] : []),
  ];

  it('do not appear in error responses', () => {
    expect(refusals.length).toBeGreaterThan(20);
    expect(tracesIn(refusals.join('\n'))).toEqual([]);
  });

  it('do not appear in logs, also at the level trace', () => {
    const log = tributary.log();
    expect(log).toMatch(/set to error/);
    expect(tracesIn(log)).toEqual([]);
  });

  it('do not appear in metrics and health responses', async () => {
    const metrics = await tributary.metrics();
    expect(metrics).toMatch(/tributary_events_received_total/);
    expect(tracesIn(metrics)).toEqual([]);
    for (const base of [tributary.url, tributary.adminUrl])
      expect(tracesIn(await (await fetch(`${base}/readyz`)).text())).toEqual([]);
  });

  it('do not appear in audit entries', async () => {
    const entries =
      await owner.get<readonly { readonly entity: { readonly type: string } }[]>('./audit-log?limit=1000');
    const kinds = new Set(entries.map(({ entity }) => entity.type));
    for (const kind of ['api_key', 'write_key', 'destination', 'transformation', 'contract', 'rule'])
      expect(kinds).toContain(kind);
    expect(tracesIn(JSON.stringify(entries))).toEqual([]);
  });

  it('do not appear in lists of resources', async () => {
    for (const list of ['api-keys', 'event-keys', 'destinations', 'event-transformations', 'event-contracts'])
      expect(tracesIn(JSON.stringify(await owner.get(`./${list}`))), list).toEqual([]);
    const contracts = await owner.get<readonly Made[]>('./event-contracts');
    const violations = await Promise.all(
      contracts.map(({ id }) =>
        owner.get<readonly unknown[]>(`./event-contracts/${id}/violations?limit=1000`),
      ),
    );
    expect(violations.flat().length).toBeGreaterThan(5);
    expect(tracesIn(JSON.stringify(violations))).toEqual([]);
  });

  it('do not appear in records of the catalog', async () => {
    expect(secretsIn(await entriesOf(TOPIC.catalog))).toEqual([]);
  });

  it('do not appear in dead deliveries, which contain the event but no credential', async () => {
    expect(dead.includes('***')).toBe(true); // the destination's answer is shown with secrets masked
    expect(credentials.in(dead)).toEqual([]);
    expect(values.in(dead)).not.toEqual([]);
    for (const topic of [TOPIC.deliveriesDead, retryTopic('100ms'), TOPIC.deliveries])
      expect(credentials.in(await entriesOf(topic)), topic).toEqual([]);
  });
});

function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}
