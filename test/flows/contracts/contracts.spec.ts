import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

interface Contract {
  readonly id: string;
  readonly version: number;
}

interface Violation {
  readonly kind: string;
  readonly path: string;
  readonly action: string;
  readonly contract_version: number;
}

/** A contract defines the form of an event, and the handling of violations. */
describe('Contracts', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    tributary = await startTributary();
  });
  afterAll(() => tributary.remove());

  const terms = (name: string, enforcement: string, undeclared = 'allow') => ({
    name,
    event_type: 'track',
    event_name: name,
    description: null,
    schema_definition: { properties: { total: { type: 'number', required: true } } },
    enforcement_mode: enforcement,
    undeclared_fields: undeclared,
  });
  const create = (body: object) => tributary.owner.post<Contract>('./event-contracts', body);
  const send = (event: string, properties: object) =>
    tributary.producer.post('./events/track', { event, user_id: 'u1', properties });
  const violations = (id: string) =>
    tributary.owner.get<readonly Violation[]>(`./event-contracts/${id}/violations`);

  it.each([
    ['allow', 'accepted', []],
    ['warn', 'warned', ['warned']],
    ['omit', 'omitted', ['omitted']],
    ['block', 'rejected', ['blocked']],
  ])(
    'with undeclared_fields %s, an event with an undeclared field is %s',
    async (undeclared, outcome, actions) => {
      const { id } = await create(terms(`Undeclared ${undeclared}`, 'block', undeclared));
      const tried = await tributary.owner.post<{ violations: readonly Violation[] }>(
        `./event-contracts/${id}/validate`,
        { event: `Undeclared ${undeclared}`, user_id: 'u1', properties: { total: 1, other: true } },
      );
      expect(tried).toMatchObject({ outcome });
      expect(tried.violations.map(({ action }) => action)).toEqual(actions);
    },
  );

  it('a change creates a new version, and each violation names the version it was found by', async () => {
    const { id } = await create(terms('Versioned', 'warn'));
    await send('Versioned', {});
    await eventually(
      () => violations(id),
      (found) => found.length === 1,
    );
    const changed = await tributary.owner.put<Contract>(`./event-contracts/${id}`, {
      ...terms('Versioned', 'warn'),
      schema_definition: { properties: { total: { type: 'integer', required: true } } },
    });
    expect(changed.version).toBe(2);
    await send('Versioned', { total: 1.5 });
    const recorded = await eventually(
      () => violations(id),
      (found) => found.length === 2,
    );
    expect(recorded.map(({ contract_version, kind }) => [contract_version, kind])).toEqual([
      [2, 'type'],
      [1, 'required'],
    ]);
  });
});
