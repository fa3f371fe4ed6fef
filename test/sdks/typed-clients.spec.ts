import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type CanonicalEvent, TOPIC } from '@tributary/core';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inherited } from '../helpers/child.ts';
import { eventually } from '../helpers/client.ts';
import { entriesOf } from '../helpers/log-of.ts';
import { ServerProcess } from '../helpers/server-process.ts';
import { startTributary, type Tributary } from '../helpers/tributary.ts';
import { findProgram, pythonWithSdks } from './programs.ts';

/* Clients that `tributary codegen` wrote, with unmodified SDKs, against a server whose contracts block. */

const LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
// Compiling Go and installing SDKs of Python take long.
const python = LONG ? findProgram('python3') : undefined;
const go = LONG ? findProgram('go') : undefined;
const SENT_WITHIN_MS = LONG ? 300_000 : 120_000;

const contract = (event_type: string, event_name: string, properties: object) => ({
  event_type,
  event_name,
  schema_definition: { properties },
  enforcement_mode: 'block',
  undeclared_fields: 'block',
});
const PLAN = {
  contracts: [
    contract('track', 'Order "Placed"\n*/', {
      'order id': { type: 'string', required: true, minLength: 1 },
      total: { type: 'number', required: true },
      currency: { enum: ['EUR', 'USD'], type: 'string' },
      'placed-at': { type: 'string', format: 'date-time' },
      address: { properties: { city: { type: 'string', required: true } } },
      lines: {
        type: 'array',
        items: { properties: { sku: { type: 'string', required: true }, count: { type: 'integer' } } },
      },
    }),
    contract('page', 'Home', { url: { type: 'string' } }),
    contract('identify', '', { plan: { enum: ['free', 'pro'], required: true } }),
    contract('group', '', { employees: { type: 'integer' } }),
  ],
};

const ORDER = {
  'order id': 'o-1',
  total: 12.5,
  currency: 'EUR',
  'placed-at': '2026-01-02T03:04:05Z',
  address: { city: 'Köln' },
  lines: [{ sku: 's', count: 2 }],
};

let tributary: Tributary;
let folder: string;
let key: string;
beforeAll(async () => {
  tributary = await startTributary();
  folder = await mkdtemp(join(tmpdir(), 'tributary-typed-'));
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  await tributary.owner.put('./tracking-plan', PLAN);
  ({ key } = await tributary.owner.post<{ key: string }>('./api-keys', {
    name: 'codegen',
    role: 'viewer',
    may_manage: [],
  }));
}, SENT_WITHIN_MS);
afterAll(async () => {
  await tributary.remove();
  await rm(folder, { recursive: true, force: true });
});

/** The real command, which asks the server for the plan. */
async function codegen(language: string, out: string, ...options: readonly string[]): Promise<void> {
  const from = ['--url', tributary.url, '--workspace', tributary.workspaceId];
  const command = new ServerProcess(
    ['codegen', '--language', language, ...options, ...from, '--out', join(folder, out)],
    {
      TRIBUTARY_API_KEY: key,
    },
  );
  expect(await command.ended(), command.log).toBe(0);
}

/** The accepted events of a user, once there are four; and that nothing was rejected. */
async function expectSent(
  user: string,
  types: readonly string[] = ['group', 'identify', 'page', 'track'],
): Promise<void> {
  const accepted = async () =>
    (await entriesOf(tributary, TOPIC.accepted))
      .map(({ value }) => JSON.parse(String(value)) as CanonicalEvent)
      .filter(({ user_id }) => user_id === user);
  const events = await eventually(accepted, ({ length }) => length >= types.length, 60_000);
  expect(events.map(({ type }) => type).sort()).toEqual(types);
  expect(events.find(({ type }) => type === 'track')).toMatchObject({
    event: 'Order "Placed"\n*/',
    properties: { ...ORDER, 'placed-at': expect.stringMatching(/^2026-01-02T03:04:05/) },
  });
  expect(events.find(({ type }) => type === 'identify')).toMatchObject({ traits: { plan: 'pro' } });
  expect(await entriesOf(tributary, TOPIC.rejected)).toEqual([]);
}

/** The errors of a TypeScript program. */
function errorsOf(...names: readonly string[]): readonly string[] {
  const program = ts.createProgram(
    names.map((name) => join(folder, name)),
    {
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      exactOptionalPropertyTypes: true,
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      allowImportingTsExtensions: true,
      lib: ['lib.es2024.d.ts', 'lib.dom.d.ts'],
      types: ['node'],
      typeRoots: [join(ROOT, 'node_modules/@types')],
    },
  );
  return ts
    .getPreEmitDiagnostics(program)
    .map(
      ({ messageText, file }) =>
        `${file?.fileName.slice(folder.length + 1)}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
    );
}

const CALLS = (order: string) => `
plan.trackOrderPlaced(message, ${order});
plan.pageHome(message, { url: 'https://shop.example/' });
plan.identify(message, { plan: 'pro' });
plan.group(message, 'acme', { employees: 17 });
`;
const SERVER_SDKS: readonly (readonly [string, string, string])[] = [
  [
    'segment',
    `import { Analytics } from '@segment/analytics-node';
const analytics = new Analytics({ host: url, writeKey });`,
    'await analytics.closeAndFlush();',
  ],
  [
    'rudderstack',
    `import { createRequire } from 'node:module';
import type RudderAnalytics from '@rudderstack/rudder-sdk-node';
const Sdk = createRequire(import.meta.url)('@rudderstack/rudder-sdk-node') as new (key: string, options: object) => RudderAnalytics;
const analytics = new Sdk(writeKey, { dataPlaneUrl: url, flushInterval: 100 });`,
    'await analytics.flush();',
  ],
];

describe('a client in TypeScript', () => {
  it.each(SERVER_SDKS)(
    'compiles and sends with the SDK for Node of %s; a wrong property does not compile',
    async (sdk, open, close) => {
      await codegen('typescript', `${sdk}.plan.ts`, '--sdk', sdk);
      const script = (order: string) => `import { TrackingPlan } from './${sdk}.plan.ts';
const [url = '', writeKey = '', userId = ''] = process.argv.slice(2);
${open}
const plan = new TrackingPlan(analytics);
const message = { userId };
${CALLS(order)}${close}
`;
      await writeFile(join(folder, `${sdk}.ts`), script(JSON.stringify(ORDER)));
      await writeFile(join(folder, `${sdk}.wrong.ts`), script(`{ 'order id': 5, total: 1, colour: 'red' }`));
      const errors = errorsOf(`${sdk}.ts`, `${sdk}.wrong.ts`);
      expect(errors.filter((error) => !error.startsWith(`${sdk}.wrong.ts`))).toEqual([]);
      expect(errors.length).toBeGreaterThan(0);
      await run(
        process.execPath,
        [
          '--disable-warning=ExperimentalWarning',
          join(folder, `${sdk}.ts`),
          tributary.url,
          tributary.writeKey,
          `node-${sdk}`,
        ],
        { env: inherited() },
      );
      await expectSent(`node-${sdk}`);
    },
    SENT_WITHIN_MS,
  );

  it(
    'compiles with the SDK for browsers; a wrong property does not',
    async () => {
      await codegen('typescript', 'browser.plan.ts', '--sdk', 'browser');
      const script = (order: string) => `import { AnalyticsBrowser } from '@segment/analytics-next';
import { TrackingPlan } from './browser.plan.ts';
const plan = new TrackingPlan(AnalyticsBrowser.load({ writeKey: 'x' }));
void plan.trackOrderPlaced(${order}, { anonymousId: 'd' });
void plan.pageHome();
void plan.identify('u', { plan: 'pro' });
void plan.group('acme', { employees: 17 });
`;
      await writeFile(join(folder, 'browser.ts'), script(JSON.stringify(ORDER)));
      await writeFile(join(folder, 'browser.wrong.ts'), script(`{ 'order id': 'a', total: '1' }`));
      const errors = errorsOf('browser.ts', 'browser.wrong.ts');
      expect(errors.filter((error) => !error.startsWith('browser.wrong.ts'))).toEqual([]);
      expect(errors.length).toBeGreaterThan(0);
    },
    SENT_WITHIN_MS,
  );
});

describe.skipIf(python === undefined)('a client in Python', () => {
  it.each(['segment', 'rudderstack'])(
    'sends valid events with the SDK of %s, and refuses invalid ones before',
    async (sdk) => {
      await codegen('python', `plan_${sdk}.py`, '--sdk', sdk);
      const script = `
import datetime, sys
sys.path.insert(0, ${JSON.stringify(folder)})
from ${sdk}.analytics.client import Client
from plan_${sdk} import TrackingPlan, TrackingPlanError
url, key, user = sys.argv[1:]
client = Client(key, host=url, on_error=lambda error, items: sys.exit(str(error)))
plan = TrackingPlan(client)
order = ${JSON.stringify(ORDER)}
order["placed-at"] = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
plan.track_order_placed(order, user_id=user)
plan.page_home({"url": "https://shop.example/"}, user_id=user)
plan.identify({"plan": "pro"}, user_id=user)
plan.group("acme", {"employees": 17}, user_id=user)
for wrong in ({"total": 1}, {**order, "total": "1"}, {**order, "currency": "GBP"}, {**order, "colour": 1}):
    try:
        plan.track_order_placed(wrong, user_id=user)
    except TrackingPlanError:
        continue
    sys.exit("it was sent: %r" % wrong)
client.flush()
client.join()
`;
      await writeFile(join(folder, `send_${sdk}.py`), script);
      await run(
        pythonWithSdks(python ?? ''),
        ['-B', join(folder, `send_${sdk}.py`), tributary.url, tributary.writeKey, `python-${sdk}`],
        {
          env: inherited(),
        },
      );
      await expectSent(`python-${sdk}`);
    },
    SENT_WITHIN_MS,
  );
});

describe.skipIf(go === undefined)('a client in Go', () => {
  it(
    'compiles and sends valid events with both SDKs, and refuses invalid ones before',
    async () => {
      const module = join(folder, 'go');
      await cp(new URL('senders/typed-go', import.meta.url), module, { recursive: true });
      for (const sdk of ['segment', 'rudderstack']) {
        await mkdir(join(module, `${sdk}plan`));
        await codegen('go', `go/${sdk}plan/plan.go`, '--sdk', sdk, '--package', `${sdk}plan`);
      }
      await run(go ?? '', ['vet', './...'], { cwd: module });
      await run(go ?? '', ['build', '-o', 'send', '.'], { cwd: module });
      const { stdout } = await run(join(module, 'send'), [tributary.url, tributary.writeKey], {
        env: inherited(),
      });
      expect(stdout.trim().split('\n')).toEqual(
        ['segment', 'rudderstack'].flatMap((sdk) => [
          `${sdk}: track "Order \\"Placed\\"\\n*/": /order id is required; /total is required`,
          `${sdk}: track "Order \\"Placed\\"\\n*/": /address/city is required; /currency must be one of [EUR USD]; /order id must have minLength 1`,
        ]),
      );
      await expectSent('go-segment');
      await expectSent('go-rudderstack');
    },
    SENT_WITHIN_MS,
  );

  it(
    'refuses a wrong type when it compiles',
    async () => {
      const module = join(folder, 'go');
      const main = await readFile(join(module, 'main.go'), 'utf8');
      await writeFile(
        join(module, 'main.go'),
        main.replace('segmentplan.Ptr(12.5)', 'segmentplan.Ptr("12.5")'),
      );
      await expect(run(go ?? '', ['build', '-o', 'wrong', '.'], { cwd: module })).rejects.toThrow(
        'cannot use',
      );
    },
    SENT_WITHIN_MS,
  );
});
