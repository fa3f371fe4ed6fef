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
  const counted = async (name: string) =>
    (
      await tributary.owner.get<readonly { event_name: string; event_count: number }[]>('./event-volume')
    ).find(({ event_name }) => event_name === name)?.event_count ?? 0;

  it('block rejects an event that violates the contract and records the violations, from the first event after the response', async () => {
    const { id } = await create(terms('Blocked', 'block'));
    await send('Blocked', { total: 'much' });
    await send('Blocked', { total: 1 });
    await eventually(
      () => counted('Blocked'),
      (count) => count === 1,
    );
    const recorded = await eventually(
      () => violations(id),
      (found) => found.length > 0,
    );
    expect(recorded).toMatchObject([
      { kind: 'type', path: '/total', action: 'blocked', contract_id: id, contract_version: 1 },
    ]);
    expect(recorded[0]).toMatchObject({
      event_type: 'track',
      event_name: 'Blocked',
      message_id: expect.any(String),
    });
  });

  it('warn accepts every event and records its violations', async () => {
    const { id } = await create(terms('Warned', 'warn'));
    await send('Warned', {});
    await eventually(
      () => counted('Warned'),
      (count) => count === 1,
    );
    const recorded = await eventually(
      () => violations(id),
      (found) => found.length > 0,
    );
    expect(recorded).toMatchObject([{ kind: 'required', path: '/total', action: 'warned' }]);
  });

  it('allow accepts every event and records no violation', async () => {
    const { id } = await create(terms('Allowed', 'allow', 'block'));
    await send('Allowed', { other: true });
    await eventually(
      () => counted('Allowed'),
      (count) => count === 1,
    );
    expect(await violations(id)).toEqual([]);
  });

  it('omit removes undeclared fields and records them', async () => {
    const { id } = await create(terms('Omitted', 'warn', 'omit'));
    await send('Omitted', { total: 1, password: 'hunter2' });
    const recorded = await eventually(
      () => violations(id),
      (found) => found.length > 0,
    );
    expect(recorded).toMatchObject([{ kind: 'undeclared', path: '/password', action: 'omitted' }]);
    const tried = await tributary.owner.post<object>(`./event-contracts/${id}/validate`, {
      event: 'Omitted',
      user_id: 'u1',
      properties: { total: 1, password: 'hunter2' },
    });
    expect(tried).toMatchObject({ outcome: 'omitted', event: { properties: { total: 1 } } });
    expect(JSON.stringify(tried)).not.toContain('hunter2');
  });

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

  it('a contract applies to the events of its type, and of its name for track events and pages', async () => {
    const blocking = (event_type: string, event_name: string) =>
      create({ ...terms(event_name, 'block'), name: event_type, event_type, event_name });
    const made = [
      await blocking('track', 'Matched'),
      await blocking('page', 'Matched'),
      await blocking('identify', ''),
      await blocking('group', ''),
    ];
    const verdict = async (type: string, body: object) =>
      (
        await tributary.producer.call<{ error?: string }>('POST', `./events/${type}?check=contract`, {
          body: { user_id: 'u1', ...body },
        })
      ).body.error;
    const group = { group_id: 'g1' };
    expect(await verdict('track', { event: 'Matched' })).toBe('event blocked');
    expect(await verdict('page', { name: 'Matched' })).toBe('event blocked');
    expect(await verdict('identify', {})).toBe('event blocked');
    expect(await verdict('group', group)).toBe('event blocked');
    // In `properties` for the first two, in `traits` for the others.
    const good = { total: 1 };
    expect(await verdict('track', { event: 'Matched', properties: good })).toBeUndefined();
    expect(await verdict('page', { name: 'Matched', properties: good })).toBeUndefined();
    expect(await verdict('identify', { traits: good })).toBeUndefined();
    expect(await verdict('group', { ...group, traits: good })).toBeUndefined();
    // Another event name.
    expect(await verdict('track', { event: 'Not Matched' })).toBeUndefined();
    expect(await verdict('page', {})).toBeUndefined();
    for (const { id } of made) await tributary.owner.ok('DELETE', `./event-contracts/${id}`);
  });

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

  it('a type and name have one active contract; archiving it allows another', async () => {
    const first = await create(terms('Unique', 'warn'));
    expect(
      await tributary.owner.call('POST', './event-contracts', { body: terms('Unique', 'block') }),
    ).toMatchObject({
      status: 409,
      body: { error: 'conflict' },
    });
    expect(await tributary.owner.call('DELETE', `./event-contracts/${first.id}`)).toMatchObject({
      status: 200,
      body: { id: first.id, status: 'archived' },
    });
    expect(await create(terms('Unique', 'block'))).toMatchObject({ status: 'active' });
    const archived = await tributary.owner.get<readonly Contract[]>('./event-contracts?status=archived');
    expect(archived.map(({ id }) => id)).toContain(first.id);
  });

  it('an invalid schema is refused with the path of the fault', async () => {
    const refused = async (schema: object) =>
      tributary.owner.call('POST', './event-contracts', {
        body: { ...terms(`Bad ${Math.random()}`, 'warn'), schema_definition: schema },
      });
    for (const schema of [
      { properties: { a: { type: 'nonsense' } } },
      { properties: { a: { typ: 'string' } } },
      { properties: { a: { $ref: 'https://example.com/schema.json' } } },
      { properties: { a: { type: 'string', pattern: '(?=a)b' } } },
    ]) {
      expect(await refused(schema)).toMatchObject({
        status: 400,
        body: { details: [{ path: expect.stringContaining('/a') }] },
      });
    }
  });
});
