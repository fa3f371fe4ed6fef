import { QUOTA_NAMES } from '@tributary/core';
import { openDevIssuer } from '@tributary/infra';
import fc from 'fast-check';
import type { RouteOptions } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { openTestGateway } from '../../helpers/gateway.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { type Attack, everythingOf, openAttack } from '../../helpers/two-tenants/attack.ts';
import type { Plan } from '../../helpers/two-tenants/calls.ts';
import { randomPlan, sweep } from '../../helpers/two-tenants/plans.ts';
import { type Exchange, openTenant, type Tenant } from '../../helpers/two-tenants/tenant.ts';

const LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const RUNS = LONG ? 10_000 : 60;
const SEED = Number(process.env.TRIBUTARY_TEST_SEED ?? (LONG ? Date.now() % 1_000_000 : 31));

/** Thousands of calls leave entities behind, organizations for example: later calls are not to be refused for them. */
const WITHOUT_LIMITS = {
  ...Object.fromEntries(QUOTA_NAMES.map((name) => [`TRIBUTARY_QUOTA_${name.toUpperCase()}`, '1000000000'])),
  TRIBUTARY_CHANGE_RATE: '10000',
};
/** The answer about some events is in the order in which partitions are read, and a hash of an id picks those. */
const ONE_PARTITION = { TRIBUTARY_PARTITIONS: '1' };
/** Longer than stages hold their counts before they store them, ms. */
const COUNTS_STORED_MS = 2_000;

/**
 * Tenants of one installation, with events, violations and dead deliveries. One of them calls every route with the
 * ids of another. The answers equal those that its twin has to nonexistent ids, and the other's data stay unchanged.
 */
describe(`Two tenants (seed ${SEED})`, () => {
  let tributary: Tributary;
  let routes: readonly RouteOptions[];
  let victim: Tenant;
  let attack: Attack;
  let before: Readonly<Record<string, unknown>>;
  beforeAll(async () => {
    const gateway = await openTestGateway();
    routes = gateway.routes;
    await gateway.close();
    tributary = await startTributary({
      env: { TRUST_PROXY: '127.0.0.0/8', ...WITHOUT_LIMITS, ...ONE_PARTITION },
    });
    const issuer = openDevIssuer({ dataFolder: tributary.folder, devIssuerKey: '' });
    const open = async (account: string, name: string) => {
      const tenant = await openTenant(exchange, await issuer.mint(`${account}@example.com`), name);
      return { ...tenant, ids: { ...tenant.ids, deliveryId: await deliveriesOf(tenant) } };
    };
    const twins = { caller: await open('quetzal', 'quetzal'), twin: await open('twin', 'quetzal') };
    victim = await open('axolotl', 'axolotl');
    attack = openAttack(exchange, twins, victim);
    before = await settled();
  });
  afterAll(() => tributary.remove());

  let calls = 0;
  /** Another address each time: failed authentication is throttled by address. */
  const exchange: Exchange = async ({ method, path, headers, body }) => {
    calls++;
    const response = await fetch(tributary.url + path, {
      method,
      headers: {
        ...headers,
        'x-forwarded-for': `10.${(calls >> 16) & 255}.${(calls >> 8) & 255}.${calls & 255}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
    if (isStream) await response.body?.cancel();
    const text = isStream ? '' : await response.text();
    return { status: response.status, headers: Object.fromEntries(response.headers), text };
  };

  async function deliveriesOf({ tokens, ids }: Tenant): Promise<readonly string[]> {
    const [id = ''] = ids.workspaceId;
    const client = tributary.owner.with({ token: tokens.id_token, workspaceId: id });
    const dead = await eventually(
      () => client.get<readonly { id: string }[]>('./deliveries?status=dead'),
      (listed) => listed.length > 0,
    );
    return dead.map((delivery) => delivery.id);
  }

  /** Everything the other tenant has, once the stages are done with it. */
  async function settled(): Promise<Readonly<Record<string, unknown>>> {
    let since = performance.now();
    let seen = JSON.stringify(await everythingOf(exchange, routes, victim));
    return eventually(
      () => everythingOf(exchange, routes, victim),
      (next) => {
        const isSame = JSON.stringify(next) === seen;
        if (!isSame) since = performance.now();
        seen = JSON.stringify(next);
        return isSame && performance.now() > since + COUNTS_STORED_MS;
      },
    );
  }

  it('no route reveals the other tenant by one of its ids in any single parameter', async () => {
    const faults: string[] = [];
    // The other slots are covered by the same calls to a gateway in process.
    const inPaths = (plan: Plan) => plan.slots.some(({ slot }) => slot.location === 'path');
    for (const plan of sweep(routes, LONG ? 4 : 1).filter((plan) => LONG || inPaths(plan))) {
      const fault = await attack.faultOf(plan);
      if (fault !== undefined) faults.push(fault);
    }
    expect(faults).toEqual([]);
  }, 600_000);

  it(
    'no random call reveals the other tenant',
    async () => {
      await fc.assert(
        fc.asyncProperty(
          randomPlan(routes, () => true),
          async (plan) => {
            expect(await attack.faultOf(plan)).toBeUndefined();
          },
        ),
        { numRuns: RUNS, seed: SEED, endOnFailure: true },
      );
    },
    LONG ? 3_600_000 : 300_000,
  );

  it('all data of the other tenant is unchanged', async () => {
    expect(await settled()).toEqual(before);
  });
});
