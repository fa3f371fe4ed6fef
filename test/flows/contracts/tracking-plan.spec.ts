import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../engines/engine-process.ts';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

const CONTRACTS = 150;

interface Plan {
  readonly version: number;
  readonly contracts: readonly { readonly event_name: string; readonly version: number }[];
}

/** The contracts of a workspace as one document. */
describe('A tracking plan', () => {
  let tributary: Tributary;
  let env: Readonly<Record<string, string>>;
  beforeAll(async () => {
    env = { PORT: String(await freePort()) };
    tributary = await startTributary({ env });
  });
  afterAll(() => tributary.remove());

  it('is imported by the same request after a kill in the middle, each contract once', async () => {
    const contracts = Array.from({ length: CONTRACTS }, (_, at) => ({
      event_type: 'track',
      event_name: `Event ${String(at).padStart(3, '0')}`,
      schema_definition: { properties: { number: { type: 'integer', maximum: at } } },
    }));
    const stored = async () => (await tributary.owner.get<Plan>('./tracking-plan')).contracts.length;
    const cut = tributary.owner.put('./tracking-plan', { contracts }).then(
      () => 'answered',
      () => 'cut',
    );
    await eventually(stored, (count) => count > 0);
    await tributary.kill();
    const { folder } = tributary;
    tributary = await startTributary({ folder, env });
    const before = await stored();
    expect(before).toBeGreaterThan(0);
    if ((await cut) === 'cut') expect(before).toBeLessThanOrEqual(CONTRACTS);
    const again = await tributary.owner.put<object>('./tracking-plan', { contracts });
    expect(again).toMatchObject({ created: CONTRACTS - before, unchanged: before, updated: 0, archived: 0 });
    const plan = await tributary.owner.get<Plan>('./tracking-plan');
    expect(plan).toMatchObject({ version: CONTRACTS, contracts: { length: CONTRACTS } });
    expect(plan.contracts.map(({ event_name, version }) => [event_name, version])).toEqual(
      contracts.map(({ event_name }) => [event_name, 1]),
    );
  });
});
