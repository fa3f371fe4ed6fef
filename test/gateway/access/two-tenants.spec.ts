import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { deadDelivery } from '../../helpers/dead-delivery.ts';
import { openTestGateway, type TestGateway } from '../../helpers/gateway.ts';
import { type Attack, everythingOf, openAttack, type Twins } from '../../helpers/two-tenants/attack.ts';
import type { Plan } from '../../helpers/two-tenants/calls.ts';
import { randomPlan, sweep } from '../../helpers/two-tenants/plans.ts';
import { type Exchange, openTenant, type Tenant } from '../../helpers/two-tenants/tenant.ts';

const LONG = process.env.TRIBUTARY_TEST_LONG !== undefined;
const RUNS = LONG ? 20_000 : 120;
const SEED = Number(process.env.TRIBUTARY_TEST_SEED ?? (LONG ? Date.now() % 1_000_000 : 27));

/**
 * Two tenants of one gateway. Each calls every route with the ids of the other in every slot, and its twin with
 * nonexistent ids: the answers are the same, none reveals anything, and the other's data stay unchanged.
 */
describe(`two tenants (seed ${SEED})`, () => {
  let test: TestGateway;
  let tenants: readonly [Twins, Twins];
  let victim: Tenant;
  let exchange: Exchange;
  beforeAll(async () => {
    test = await openTestGateway({ env: { TRUST_PROXY: '127.0.0.0/8' } });
    exchange = async ({ method, path, headers, body }) => {
      test.clock.pass(700); // failed authentication is counted by address and minute
      const response = await test.app.inject({
        method: method as 'GET',
        url: path,
        headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(body === undefined ? {} : { payload: JSON.stringify(body) }),
      });
      return {
        status: response.statusCode,
        headers: response.headers as Record<string, string>,
        text: response.body,
      };
    };
    const open = async (account: string, name: string) => {
      const { token = '' } = await test.signIn(`${account}@example.com`);
      return withDelivery(await openTenant(exchange, token, name));
    };
    const openTwins = async (name: string): Promise<Twins> => ({
      caller: await open(name, name),
      twin: await open(`twin-of-${name}`, name),
    });
    tenants = [await openTwins('quetzal'), await openTwins('axolotl')];
  });
  afterAll(() => test.close());

  /** Adds the output of the stages by hand, because none run here. */
  async function withDelivery(tenant: Tenant): Promise<Tenant> {
    const [workspace_id = '', message_id = ''] = [tenant.ids.workspaceId[0], tenant.ids.messageId[1]];
    const [destination_id = '', rule_id = ''] = [tenant.ids.destinationId[0], tenant.ids.ruleId[0]];
    const [id, now] = [randomUUID(), Date.now()];
    const at = new Date(now).toISOString();
    const common = { message_id, environment: 'production', workspace_id } as const;
    const event = { ...common, type: 'track', event: tenant.canary, timestamp: at, received_at: at } as const;
    const attempts = [{ at, outcome: 'dead', reason: tenant.canary, status: 410, duration_ms: 1 }] as const;
    const about = { ...common, id, destination_id, rule_id, attempts, event };
    await test.dependencies.history.put([deadDelivery(now, { reason: tenant.canary }, about)]);
    return { ...tenant, ids: { ...tenant.ids, deliveryId: [id] } };
  }

  /** Streams of the caller's own never end. */
  const isBounded = ({ route, slots }: Plan) =>
    !route.url.endsWith('/live') || slots.some(({ slot }) => slot.location === 'path');

  const everythingOfVictim = () => everythingOf(exchange, test.routes, victim);

  describe.each([
    ['the first', 'the second', true],
    ['the second', 'the first', LONG],
  ] as const)('%s, with ids of %s', (name, _, isSwept) => {
    let attack: Attack;
    let before: Readonly<Record<string, unknown>>;
    beforeAll(async () => {
      const [callers, others] = name === 'the first' ? tenants : tenants.toReversed();
      if (callers === undefined || others === undefined) throw new Error('there are two tenants');
      victim = others.caller;
      attack = openAttack(exchange, callers, victim);
      before = await everythingOfVictim();
      expect(Object.keys(before).length).toBeGreaterThan(40);
    });

    it.runIf(isSwept)(
      'gets nothing of the other tenant from any route, in any single parameter',
      async () => {
        const faults: string[] = [];
        for (const plan of sweep(test.routes, LONG ? 4 : 1).filter(isBounded)) {
          const fault = await attack.faultOf(plan);
          if (fault !== undefined) faults.push(fault);
        }
        expect(faults).toEqual([]);
      },
      300_000,
    );

    it(
      'gets nothing of the other tenant from random calls',
      async () => {
        await fc.assert(
          fc.asyncProperty(randomPlan(test.routes, isBounded), async (plan) => {
            expect(await attack.faultOf(plan)).toBeUndefined();
          }),
          { numRuns: RUNS, seed: SEED, endOnFailure: true },
        );
      },
      LONG ? 3_600_000 : 300_000,
    );

    it('changes no data of the other tenant', async () => {
      expect(await everythingOfVictim()).toEqual(before);
    });
  });
});
