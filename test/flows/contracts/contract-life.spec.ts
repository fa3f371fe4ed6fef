import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

interface Contract {
  readonly id: string;
  readonly version: number;
  readonly schema_definition: { readonly properties: Readonly<Record<string, object>> };
}

interface Inferred {
  readonly contract: Contract | null;
  readonly events: number;
}

interface DryRun {
  readonly events: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly violations: readonly object[];
  readonly examples: readonly { readonly message_id: string }[];
}

interface Violation {
  readonly message_id: string;
  readonly contract_version: number;
}

/**
 * The life of a contract: inferred from existing events, tested on them before it is enforced, and changed
 * the same way.
 */
describe('The life of a contract', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    tributary = await startTributary();
  });
  afterAll(() => tributary.remove());

  const at = (path = '') => `./event-contracts${path}`;
  const send = (message_id: string, properties: object) =>
    tributary.producer.post('./events/track', { event: 'Paid', user_id: message_id, message_id, properties });
  const violations = (id: string, query = '') =>
    tributary.owner.get<readonly Violation[]>(at(`/${id}/violations${query}`));

  it('a contract is inferred from events, tried out, created, violated, queried and changed', async () => {
    const plans = ['free', 'pro', 'team'];
    for (let n = 0; n < 30; n++)
      await send(`m${n}`, { amount: n, plan: plans[n % 3], ...(n < 29 ? { currency: 'eur' } : {}) });

    // Infer a contract from the events.
    const inferred = await eventually(
      () =>
        tributary.owner.post<Inferred>(at('/infer'), {
          event_type: 'track',
          event_name: 'Paid',
          required_ratio: 0.9,
        }),
      ({ events }) => events === 30,
    );
    expect(inferred.contract?.schema_definition).toEqual({
      properties: {
        amount: { type: 'integer', required: true },
        currency: { type: 'string', required: true },
        plan: { type: 'string', enum: plans, required: true },
      },
    });

    // Test the contract: list the events that it would have rejected.
    const strict = { ...inferred.contract, enforcement_mode: 'block' };
    const dry = await tributary.owner.post<DryRun>(at('?dry_run=true'), strict);
    expect(dry).toMatchObject({
      events: 30,
      outcomes: { accepted: 29, rejected: 1 },
      violations: [{ kind: 'required', path: '/currency', action: 'blocked', events: 1 }],
      examples: [{ message_id: 'm29', outcome: 'rejected' }],
    });
    expect(await tributary.owner.get(at())).toEqual([]);

    // The result is right: the contract is created, and is enforced from the next event on.
    const { id, version } = await tributary.owner.post<Contract>(at(), strict);
    expect(version).toBe(1);
    await send('late', { amount: 'much', plan: 'pro' });
    const found = await eventually(
      () => violations(id),
      (some) => some.length === 2,
    );
    expect(new Set(found.map(({ contract_version }) => contract_version))).toEqual(new Set([1]));
    for (const [query, count] of [
      ['?kind=type&path=/amount', 1],
      ['?kind=required', 1],
      ['?action=blocked&environment=production&contract_version=1', 2],
      ['?environment=development', 0],
      ['?contract_version=2', 0],
      [`?until=${new Date(Date.now() - 3_600_000).toISOString()}`, 0],
    ] as const)
      expect(await violations(id, query)).toHaveLength(count);
    const hours = await tributary.owner.get<readonly { violation_count: number }[]>(
      at(`/${id}/violations/hourly`),
    );
    expect(hours.reduce((sum, { violation_count }) => sum + violation_count, 0)).toBe(2);

    // A change is tested on rejected events too, then becomes a new version; the previous one stays readable.
    const { currency, ...properties } = strict.schema_definition?.properties ?? {};
    const lenient = {
      ...strict,
      schema_definition: { properties: { ...properties, currency: { ...currency, required: false } } },
    };
    const retried = await tributary.owner.put<DryRun>(at(`/${id}?dry_run=true`), lenient);
    expect(retried).toMatchObject({ events: 31, outcomes: { accepted: 30, rejected: 1 } });
    expect(await tributary.owner.put(at(`/${id}`), lenient)).toMatchObject({ version: 2 });
    await send('later', { amount: 1.5, plan: 'pro' });
    const second = await eventually(
      () => violations(id, '?contract_version=2'),
      (some) => some.length === 1,
    );
    expect(second).toMatchObject([{ message_id: 'later', kind: 'type', path: '/amount' }]);
    expect(await tributary.owner.get(at(`/${id}/versions/1`))).toMatchObject({
      version: 1,
      schema_definition: strict.schema_definition,
    });
    const versions = await eventually(
      () => tributary.owner.get<readonly Contract[]>(at(`/${id}/versions`)),
      (some) => some.length === 2,
    );
    expect(versions.map((each) => each.version)).toEqual([2, 1]);
  });
});
