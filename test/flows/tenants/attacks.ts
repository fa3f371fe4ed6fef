import { randomUUID } from 'node:crypto';
import { statfsSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { type Client, eventually } from '../../helpers/client.ts';
import type { ProfileClient } from '../../helpers/profile-client.ts';
import type { Behaviour } from '../../helpers/webhook.ts';

/** The tenant that attacks: an organization with a workspace, a write key and a client key, as any other. */
export interface Attacker {
  readonly url: string;
  readonly token: string;
  readonly organizationId: string;
  readonly workspaceId: string;
  readonly owner: Client;
  readonly producer: Client;
  readonly writeKey: string;
  readonly profiles: ProfileClient;
  /** The URL of a webhook of the attacker. */
  hook(behaviour?: Behaviour): Promise<string>;
}

/** Returns the status of the answer. */
export type Call = (n: number) => Promise<number>;

/** Latencies of the neighbour that only some attacks may change. */
export type ExtraProbe = 'mail' | 'retry' | 'profile of an event';

export interface Attack {
  readonly name: string;
  /** The rows of "What tenants share" in docs/threat-model.md of which it is the worst use, by what is shared. */
  readonly rows: readonly string[];
  /** Whether the default run has it; the long form has all, on both wirings: beside their load engines need cores of their own. */
  readonly isShort?: true;
  readonly env?: () => Readonly<Record<string, string>>;
  readonly probes?: readonly ExtraProbe[];
  /**
   * Calls a second. Default: 16 callers that repeat it as fast as they can. Calls with events have a pace: the rows are about
   * what events turn into, and their number is bounded by `TRIBUTARY_EVENT_RATE` alone.
   */
  readonly pace?: number;
  prepare(attacker: Attacker): Promise<Call>;
}

const freeMib = () => {
  const { bavail, bsize } = statfsSync(tmpdir());
  return Math.floor((bavail * bsize) / 2 ** 20);
};

const times = <Item>(count: number, item: (at: number) => Item) =>
  Array.from({ length: count }, (_, at) => item(at));
const fields = (count: number, value: (at: number) => unknown) =>
  Object.fromEntries(times(count, (at) => [`f${at}`, value(at)]));
const statusOf = async (answer: Promise<{ readonly status: number }>) => (await answer).status;

async function destination({ owner }: Attacker, url: string, more: object = {}): Promise<string> {
  const body = { name: url, type: 'webhook', settings: { url }, ...more };
  return (await owner.post<{ id: string }>('./destinations', body)).id;
}

async function rules({ owner }: Attacker, count: number, destination_id: string, more: object = {}) {
  for (let n = 0; n < count; n++)
    await owner.post('./event-forwarding-rules', { name: `r${n}`, destination_id, ...more });
}

function contractOf(event_name: string, schema_definition: object, enforcement_mode = 'block') {
  return { name: event_name, event_type: 'track', event_name, schema_definition, enforcement_mode };
}

const track = (event: string, properties: object = {}, user_id = 'a') => ({
  type: 'track',
  event,
  user_id,
  properties,
});
/** A workspace in a further organization of the attacker, with a write key. */
async function another(attacker: Attacker): Promise<Attacker> {
  const { id: workspaceId } = await attacker.owner.post<{ id: string }>('/workspaces', { name: 'Another' });
  const owner = attacker.owner.with({ workspaceId });
  const { key: writeKey } = await owner.post<{ key: string }>('./event-keys', {
    name: 'k',
    environment: 'production',
  });
  return { ...attacker, workspaceId, owner, producer: owner.with({ token: writeKey }), writeKey };
}

/** A batch with 100 of the event. */
const hundred = ({ producer }: Attacker, event: object, count = 100) =>
  statusOf(producer.call('POST', './events/batch', { batch: Array(count).fill(event) }));

/** Sends a body that is compressed already. */
function zipped({ url, writeKey, workspaceId }: Attacker, body: Buffer<ArrayBuffer>): Promise<number> {
  const headers = {
    authorization: `Bearer ${writeKey}`,
    'content-type': 'application/json',
    'content-encoding': 'gzip',
  };
  return statusOf(
    fetch(`${url}/api/v1/workspaces/${workspaceId}/events/batch`, { method: 'POST', headers, body }),
  );
}

async function transformed(attacker: Attacker, name: string, body: string, destinationId: string) {
  const event = track(name);
  const { id } = await attacker.owner.post<{ id: string }>('./event-transformations', {
    name,
    source_code: `function transform(event) { ${body} }`,
    test_input: event,
    test_output: event,
  });
  await rules(attacker, 1, destinationId, { event_names: [name], transformation_id: id });
}

const refuses: Behaviour = (_call, response) => void response.writeHead(500).end();
const hangs: Behaviour = (_call, response) =>
  void setTimeout(() => response.writeHead(204).end(), 10_000).unref();
const closes: Behaviour = (_call, response) => void response.socket?.destroy();
const asksToWait: Behaviour = (_call, response) => void response.writeHead(503, { 'retry-after': '3' }).end();

/** Raw bytes to the server, from an address of the attacker's own. */
function raw({ url }: Attacker, text: string): Socket {
  const { hostname: host, port } = new URL(url);
  const socket = connect({ host, port: Number(port), localAddress: '127.0.0.2' });
  socket.on('error', () => {});
  socket.write(text);
  return socket;
}

const words = (of: number) => times(40, (at) => `w${(at * 7_919 + of * 104_729).toString(36)}`).join('|');

/** The largest allowed contracts, of several kinds; each `of` gives another one. */
export const WORST_CONTRACTS: readonly ((of: number) => object)[] = [
  (of) => ({
    properties: Object.fromEntries(times(620, (at) => [`a${of}_${at}`, { type: 'string', minLength: 1 }])),
  }),
  (of) => ({ patternProperties: Object.fromEntries(times(120, (at) => [`^p${at}.*(x|y)${of}$`, {}])) }),
  (of) => ({
    anyOf: times(200, (at) => ({ properties: { [`a${of}_${at}`]: { type: 'string' } } })),
    unevaluatedProperties: false,
  }),
  (of) => ({ properties: { a: { allOf: times(45, (at) => ({ pattern: `(a|b)*a(a|b){7}${of}_${at}` })) } } }),
  (of) => ({
    properties: Object.fromEntries(
      times(500, (at) => [`e${at}`, { enum: times(19, (n) => `${of}_${at}_${n}`) }]),
    ),
  }),
];
/** Rejected contracts, which must not cost more. */
const REFUSED_CONTRACTS: readonly ((of: number) => object)[] = [
  (of) => ({
    patternProperties: Object.fromEntries(times(300, (at) => [`^(${words(of * 1_000 + at)})$`, {}])),
  }),
  (of) => ({ properties: { a: { allOf: times(900, (at) => ({ pattern: `(a|b)*a(a|b){9}${of}_${at}` })) } } }),
  () => ({
    properties: fields(900, () => ({ minLength: 1, maxLength: 9, minimum: 1, maximum: 3, multipleOf: 2 })),
  }),
];

/** Values of a profile near its bound. */
const LARGE = fields(1_900, (at) => `value ${at}`.padEnd(60, 'x'));
async function largeProfiles({ profiles }: Attacker): Promise<void> {
  for (let n = 0; n < 3; n++)
    await profiles.write({ user_id: `large-${n}` }, { upsert: { profile: { traits: LARGE } } });
}

const LOOP = 'event.properties.list.exists(x, x > 8 && x < 3)';
const LIST = times(850, (at) => at % 7);

/** The worst that a tenant can do to each thing that it shares with others, by the public API alone. */
export const ATTACKS: readonly Attack[] = [
  {
    name: 'events that become many failing deliveries',
    rows: [
      'log topics: what stages write',
      'log topics: what is held over the retention',
      'log topics: one event at many destinations',
    ],
    isShort: true,
    pace: 0.5,
    async prepare(attacker) {
      await rules(attacker, 150, await destination(attacker, await attacker.hook(refuses)));
      const batch = Array(100).fill(track('Much', { text: 'x'.repeat(30_000) }));
      const body = gzipSync(JSON.stringify({ batch }));
      return () => zipped(attacker, body);
    },
  },
  {
    name: 'a disk that fills',
    rows: ['the disk of the data folder', 'the ballast of the data folder', "the disks of Kafka's brokers"],
    // Full after a quarter of a GiB; the brokers of the tests are on this disk as well.
    env: () => ({ TRIBUTARY_DISK_RESERVE: `${freeMib() - 256}MiB` }),
    pace: 5,
    async prepare(attacker) {
      await rules(attacker, 100, await destination(attacker, await attacker.hook(closes)));
      return (n) => hundred(attacker, track('Much', { text: randomUUID().repeat(600), n }), 10);
    },
  },
  {
    name: 'plain events of several organizations, and files, that fill the disk',
    rows: ['the disk: plain volume', 'the disk: many organizations of one account', 'the disk: NDJSON files'],
    env: () => ({ TRIBUTARY_DISK_RESERVE: `${freeMib() - 256}MiB` }),
    pace: 5,
    async prepare(attacker) {
      const files = { name: 'files', type: 'ndjson', settings: { folder: 'a' } };
      const { id } = await attacker.owner.post<{ id: string }>('./destinations', files);
      await rules(attacker, 10, id);
      const others = await Promise.all(times(5, () => another(attacker)));
      const event = (n: number) => track('Much', { text: randomUUID().repeat(600), n });
      return (n) => hundred(others[n % 6] ?? attacker, event(n), 10);
    },
  },
  {
    name: 'people who are all new, faster than their profiles are written',
    rows: ['the disk: profiles and history behind the log'],
    env: () => ({ TRIBUTARY_DISK_RESERVE: `${freeMib() - 256}MiB` }),
    pace: 5,
    async prepare(attacker) {
      const bio = 'b'.repeat(2_000);
      const batch = (n: number) =>
        times(100, (at) => ({ type: 'identify', user_id: `new-${n}-${at}`, traits: { bio } }));
      return (n) => statusOf(attacker.producer.call('POST', './events/batch', { batch: batch(n) }));
    },
  },
  {
    name: 'events beyond a budget',
    rows: ['output beyond a budget', 'dead deliveries'],
    env: () => ({ TRIBUTARY_WORKSPACE_BYTES_PER_HOUR: '1MiB' }),
    pace: 10,
    async prepare(attacker) {
      await rules(attacker, 50, await destination(attacker, await attacker.hook(refuses)));
      const schema = { properties: fields(20, () => ({ type: 'string' })) };
      await attacker.owner.post('./event-contracts', contractOf('Beyond', schema, 'warn'));
      return () =>
        hundred(
          attacker,
          track(
            'Beyond',
            fields(20, (at) => at),
          ),
          20,
        );
    },
  },
  {
    name: 'events that violate a hundred fields',
    rows: ['violations, in their topic and in the history', 'the history'],
    pace: 2,
    async prepare(attacker) {
      const schema = { properties: fields(100, () => ({ type: 'string' })) };
      await attacker.owner.post('./event-contracts', contractOf('Wrong', schema, 'warn'));
      return () =>
        hundred(
          attacker,
          track(
            'Wrong',
            fields(100, (at) => at),
          ),
        );
    },
  },
  {
    name: 'deliveries that have to be repeated',
    rows: ['retry topics', 'requests to one receiver'],
    env: () => ({ TRIBUTARY_RETRY_SCHEDULE: '1s,5s,30s' }),
    probes: ['retry'],
    pace: 5,
    async prepare(attacker) {
      const limits: Behaviour = (_call, response) =>
        void response.writeHead(429, { 'retry-after': '1' }).end();
      for (const behaviour of [refuses, closes, asksToWait, limits])
        await rules(attacker, 3, await destination(attacker, await attacker.hook(behaviour)));
      return () => hundred(attacker, track('Repeated'), 20);
    },
  },
  {
    name: 'destinations that hang',
    rows: ['retry topics: due records without room', 'the slow queue of deliveries'],
    isShort: true,
    env: () => ({ TRIBUTARY_RETRY_SCHEDULE: '1s,5s,30s' }),
    pace: 5,
    async prepare(attacker) {
      for (let n = 0; n < 20; n++)
        await rules(attacker, 1, await destination(attacker, await attacker.hook(hangs)));
      return () => hundred(attacker, track('Hanging'), 20);
    },
  },
  {
    name: 'traces, contracts, dry runs and checks',
    rows: [
      "the gateway's thread: work on what tenants made",
      "the gateway's thread: contracts checked with events",
      'compiled contracts',
      'few tasks at a time: traces, searches, inflation, large profile calls',
    ],
    async prepare(attacker) {
      const { owner, producer } = attacker;
      const sink = await destination(attacker, await attacker.hook(), { enabled: false });
      await rules(attacker, 200, sink, { filter: `${LOOP} || ${LOOP}` });
      const { message_id } = await producer.post<{ message_id: string }>('./events/track', {
        event: 'Traced',
        user_id: 'a',
        properties: { list: LIST },
      });
      await eventually(
        () => owner.call('GET', `./events/${message_id}`),
        ({ status }) => status === 200,
      );
      const worst = (n: number) => WORST_CONTRACTS[n % WORST_CONTRACTS.length]?.(n) ?? {};
      const refused = (n: number) => REFUSED_CONTRACTS[n % REFUSED_CONTRACTS.length]?.(n) ?? {};
      const event = { ...track('Worst 2', { a: 'ab'.repeat(400) }) };
      const calls: readonly ((n: number) => Promise<{ status: number }>)[] = [
        () => owner.call('GET', `./events/${message_id}`),
        (n) => owner.call('POST', './event-contracts', contractOf(`R${n}`, refused(n))),
        (n) => owner.call('POST', './event-contracts', contractOf(`Worst ${n}`, worst(n))),
        (n) => owner.call('POST', './event-contracts?dry_run=true', contractOf('', worst(n))),
        () => producer.call('POST', './events/batch?check=contract', { batch: Array(20).fill(event) }),
        () => owner.call('GET', './recent-events?limit=1000'),
      ];
      return (n) => statusOf(calls[n % calls.length]?.(n) ?? owner.call('GET', '/me'));
    },
  },
  {
    name: 'filters on an event of 3,900 keys',
    rows: ["the gateway's thread: filters", 'compiled filters'],
    async prepare(attacker) {
      const { owner } = attacker;
      const sink = await destination(attacker, await attacker.hook(), { enabled: false });
      const filter =
        'size(event.properties) < 0 || event.properties.exists(k, k == "no") || type(event.properties) == string';
      await rules(attacker, 200, sink, { filter });
      const body = {
        event: track('Tried', Object.fromEntries(times(3_900, (at) => [at.toString(36), 1]))),
      };
      return () => statusOf(owner.call('POST', './event-forwarding-rules/test', body));
    },
  },
  {
    name: 'calls on large profiles',
    rows: ["the gateway's thread: large profiles", 'one profile', 'the topic `profiles.changes`'],
    isShort: true,
    async prepare(attacker) {
      await largeProfiles(attacker);
      return (n) => {
        const user_id = `large-${n % 3}`;
        const traits = { f1: n };
        return n % 4 === 3
          ? statusOf(attacker.profiles.call('/_search', { regions: ['eu'], search: { user_id: [user_id] } }))
          : statusOf(
              attacker.profiles.call('', { region: 'eu', ids: { user_id }, upsert: { profile: { traits } } }),
            );
      };
    },
  },
  {
    name: 'events of large profiles',
    rows: ['the stage `profile`'],
    probes: ['profile of an event'],
    pace: 4,
    async prepare(attacker) {
      await largeProfiles(attacker);
      return (n) => {
        const batch = times(25, (at) => ({
          type: 'identify',
          user_id: `large-${at % 3}`,
          traits: { f2: n + at },
        }));
        return statusOf(attacker.producer.call('POST', './events/batch', { batch }));
      };
    },
  },
  {
    name: 'filters and contracts that take long for each event',
    rows: ['the threads of the stages', 'slow queues of events'],
    isShort: true,
    pace: 10,
    async prepare(attacker) {
      const sink = await destination(attacker, await attacker.hook());
      const filter = times(3, () => 'event.properties.list.exists(x, x > 7 && x.size() == 3 || x == "no")');
      await rules(attacker, 190, sink, { filter: filter.join(' || ') });
      const anyOf = [
        { type: 'string' },
        { type: 'boolean' },
        { maximum: -1 },
        { type: 'array' },
        { type: 'integer' },
      ];
      await attacker.owner.post(
        './event-contracts',
        contractOf('Slow', { properties: { list: { items: { anyOf } } } }),
      );
      return () => hundred(attacker, track('Slow', { list: LIST }), 10);
    },
  },
  {
    name: 'transformations that burn time and that flood',
    rows: ['the processes of the sandbox'],
    env: () => ({ TRIBUTARY_SANDBOX_PROCESSES: '2' }),
    pace: 5,
    async prepare(attacker) {
      const sink = await destination(attacker, await attacker.hook());
      const burn =
        'const until = Date.now() + 90; while (Date.now() < until && event.properties.on); return event;';
      const flood = `return event.properties.on ? Array.from({ length: 70 }, (_, n) =>
        ({ ...event, properties: { n, text: 'y'.repeat(25000) } })) : event;`;
      await transformed(attacker, 'Burn', burn, sink);
      await transformed(attacker, 'Flood', flood, sink);
      return (n) =>
        hundred(attacker, track(n % 3 === 0 ? 'Flood' : 'Burn', { on: true }), n % 3 === 0 ? 2 : 5);
    },
  },
  {
    name: 'notices and links without end',
    rows: ['the stage `mail`', 'the mail server, mailboxes of members', 'mailboxes of strangers'],
    probes: ['mail'],
    async prepare({ owner, profiles, organizationId }) {
      const address = (notification_email: string) =>
        statusOf(owner.call('PATCH', `/organizations/${organizationId}`, { notification_email }));
      return async (n) => {
        if (n % 50 === 0)
          return address(n % 100 === 0 ? 'attacker@example.com' : `stranger-${n % 700}@example.com`);
        const ids = { AdId: `mailed-${n}` };
        const { status } = await profiles.call('', { region: 'eu', ids });
        if (status !== 200) return status;
        return statusOf(
          profiles.call('/_delete', { region: 'eu', ids: { AdId: [ids.AdId] }, sendEmailNotification: true }),
        );
      };
    },
  },
  {
    name: 'changes that are audited, and reads of the log',
    rows: [
      '`profiles.operations` and the audit log',
      'changes in the audit log',
      'searches of 1,000 values',
      'lists, and exports of plans',
    ],
    async prepare({ owner, profiles, organizationId }) {
      const calls: readonly ((n: number) => Promise<{ status: number }>)[] = [
        (n) =>
          profiles.call('/_delete', { region: 'eu', ids: { AdId: times(400, (at) => `nobody-${n}-${at}`) } }),
        (n) => profiles.call('', { region: 'eu', ids: { AdId: `one-${n}` } }),
        () => owner.call('GET', `/organizations/${organizationId}/audit-log?limit=1000`),
        () =>
          profiles.call('/_search', { regions: ['eu'], search: { AdId: times(1_000, (at) => `one-${at}`) } }),
      ];
      return (n) => statusOf(calls[n % calls.length]?.(n) ?? owner.call('GET', '/me'));
    },
  },
  {
    name: 'changes of the catalog',
    rows: ['the catalog', 'sources, and all that a workspace creates', 'label values of metrics'],
    async prepare(attacker) {
      const { owner } = attacker;
      const sink = await destination(attacker, await attacker.hook(), { enabled: false });
      const description = 'd'.repeat(900);
      return async (n) => {
        const body = { name: `c${n}`, destination_id: sink, enabled: false, description };
        const made = await owner.call<{ id: string }>('POST', './event-forwarding-rules', body);
        if (made.status !== 201) return statusOf(owner.call('GET', './event-forwarding-rules?limit=1000'));
        return statusOf(owner.call('DELETE', `./event-forwarding-rules/${made.body.id}`));
      };
    },
  },
  {
    name: 'names without end',
    rows: ['`funnel.counts` and its single writer', 'event names in the counts'],
    pace: 5,
    prepare:
      async ({ producer }) =>
      (n) => {
        const name = (at: number) => `${'n'.repeat(150)}-${n}-${at}`;
        const batch = times(100, (at) => track(name(at), {}, name(at)));
        return statusOf(producer.call('POST', './events/batch', { batch }));
      },
  },
  {
    name: 'streams that are not read',
    rows: ['live streams', 'readers of live streams that do not read'],
    pace: 5,
    async prepare(attacker) {
      const { token, workspaceId, url } = attacker;
      const head = [
        `GET /api/v1/workspaces/${workspaceId}/events/live HTTP/1.1`,
        `host: ${new URL(url).host}`,
        `authorization: Bearer ${token}`,
        `x-workspace-id: ${workspaceId}`,
      ];
      for (let n = 0; n < 50; n++) {
        const socket = raw(attacker, `${head.join('\r\n')}\r\n\r\n`);
        if (n % 2 === 0) socket.resume();
        else socket.pause();
      }
      return () => hundred(attacker, track('Streamed', { text: 'x'.repeat(2_000) }));
    },
  },
  {
    name: 'bodies that inflate, that never end, and answers that are not read',
    rows: ['memory of request bodies and responses', 'memory of what stages read from Kafka'],
    async prepare(attacker) {
      await largeProfiles(attacker);
      const { writeKey, profiles, url, workspaceId } = attacker;
      const bomb = gzipSync(Buffer.alloc(256 * 2 ** 20, ' '));
      const held: Socket[] = [];
      const request = (path: string, headers: readonly string[], body: string) => {
        const lines = [
          `POST ${path} HTTP/1.1`,
          `host: ${new URL(url).host}`,
          'content-type: application/json',
        ];
        held.push(raw(attacker, `${[...lines, ...headers].join('\r\n')}\r\n\r\n${body}`).pause());
        if (held.length > 200) held.shift()?.destroy();
      };
      return async (n) => {
        if (n % 3 === 0) return zipped(attacker, bomb);
        await sleep(20);
        if (n % 3 === 1)
          request(
            `/api/v1/workspaces/${workspaceId}/events/batch`,
            [`authorization: Bearer ${writeKey}`, 'content-length: 4000000'],
            `{"batch":[${' '.repeat(100_000)}`,
          );
        else {
          const search = { user_id: times(3, (at) => `large-${at}`) };
          const body = JSON.stringify({ orgId: profiles.orgId, regions: ['eu'], search });
          const sent = Object.entries(profiles.headers).map(([name, value]) => `${name}: ${value}`);
          request('/cdp/v1/users/_search', [...sent, `content-length: ${body.length}`], body);
        }
        return 0;
      };
    },
  },
  {
    name: 'connections that are opened and kept',
    rows: ['connections'],
    env: () => ({ TRIBUTARY_MAX_CONNECTIONS: '1000' }),
    pace: 50,
    async prepare(attacker) {
      const held: Socket[] = [];
      return async () => {
        for (let n = 0; n < 20; n++)
          held.push(raw(attacker, n % 2 === 0 ? '' : 'GET / HTTP/1.1\r\nhost: a\r\n'));
        while (held.length > 2_000) held.shift()?.destroy();
        return 0;
      };
    },
  },
];
