import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

type Figure = 'runs' | 'errors' | 'dropped' | 'fanned_out' | 'outputs' | 'p50_ms' | 'p99_ms';

interface Dead {
  readonly id: string;
  readonly reason: string;
  readonly updated_at: string;
}

/** The long-term view of a transformation: its context, its versions, its figures. */
describe('Transformations in service', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  let destinationId: string;
  beforeAll(async () => {
    tributary = await startTributary();
    webhook = await startWebhook();
    const settings = { url: webhook.url };
    const body = { name: 'hook', type: 'webhook', settings };
    destinationId = (await tributary.owner.post<{ id: string }>('./destinations', body)).id;
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  const example = (event: string, properties: object = {}) => ({
    type: 'track',
    event,
    user_id: 'u',
    properties,
  });
  /** A transformation that drops the event of its test, and a rule that uses it. */
  const inService = async (name: string, statements: string) => {
    const source_code = source(statements);
    const made = await tributary.owner.post<{ id: string; status: string }>('./event-transformations', {
      ...tested(name, source_code),
    });
    expect(made.status).toBe('active');
    const rule = await tributary.owner.post<{ id: string }>('./event-forwarding-rules', {
      name: `${name}, forwarded`,
      destination_id: destinationId,
      event_types: ['track'],
      event_names: [name],
      transformation_id: made.id,
    });
    return { id: made.id, ruleId: rule.id, at: `./event-transformations/${made.id}` };
  };
  const source = (statements: string) =>
    `function transform(event, context) { if (event.properties.test) return null; ${statements} }`;
  const tested = (name: string, source_code: string) => ({
    name,
    source_code,
    test_input: example(name, { test: true }),
    test_output: [],
  });
  const send = (name: string, properties: object = {}) =>
    tributary.producer.post<{ message_id: string }>('./events/track', {
      event: name,
      user_id: 'u',
      properties,
    });
  const arrived = (name: string, count = 1) =>
    eventually(
      () => webhook.deliveries().filter(({ event }) => event.event === name),
      (found) => found.length >= count,
    );

  it('a run has its rule and the verdict of the contract, and its clock stands at the receipt of the event', async () => {
    const contract = await tributary.owner.post<{ id: string; version: number }>('./event-contracts', {
      name: 'Known',
      event_type: 'track',
      event_name: 'Known',
      schema_definition: { properties: { n: { type: 'number', required: true } } },
      enforcement_mode: 'warn',
      undeclared_fields: 'allow',
    });
    const { ruleId } = await inService(
      'Known',
      'return { ...event, properties: { context, at: new Date(), drawn: Math.random() } };',
    );
    await send('Known', { n: 'seven' });
    const [delivery] = await arrived('Known');
    const received = delivery?.event as { received_at?: string; workspace_id?: string } | undefined;
    expect(delivery?.event.properties).toEqual({
      context: {
        workspace_id: received?.workspace_id,
        rule_id: ruleId,
        rule_name: 'Known, forwarded',
        environment: 'production',
        contract: { outcome: 'warned', id: contract.id, version: contract.version },
      },
      at: received?.received_at,
      drawn: expect.any(Number),
    });
  });

  it('a redrive of a failed run knows the same as the run that failed', async () => {
    const contract = await tributary.owner.post<{ id: string; version: number }>('./event-contracts', {
      name: 'Redriven',
      event_type: 'track',
      event_name: 'Redriven',
      schema_definition: { properties: { n: { type: 'number', required: true } } },
      enforcement_mode: 'warn',
      undeclared_fields: 'allow',
    });
    const { at } = await inService('Redriven', 'throw new Error(JSON.stringify(context.contract));');
    await send('Redriven', { n: 'seven' });
    const known = { outcome: 'warned', id: contract.id, version: contract.version };
    const failures = () =>
      eventually(
        () => tributary.owner.get<readonly Dead[]>('./deliveries?status=dead&reason=warned'),
        (found) => found.length > 0,
      );
    const [dead] = await failures();
    expect(dead?.reason).toContain(JSON.stringify(known));
    const redrive = () => tributary.owner.call('POST', `./deliveries/${dead?.id}/redrive`);
    // It fails once more, which must not lose it either.
    expect((await redrive()).status).toBe(202);
    await eventually(failures, ([again]) => again?.updated_at !== dead?.updated_at);
    await tributary.owner.put(
      at,
      tested('Redriven', source('return { ...event, properties: { contract: context.contract } };')),
    );
    expect((await redrive()).status).toBe(202);
    const [delivery] = await arrived('Redriven');
    expect(delivery?.event.properties).toEqual({ contract: known });
  });

  it('an older version is restored by a rollback, also for events that the newer one failed on', async () => {
    const { at } = await inService('Back', 'event.properties.by = "first"; return event;');
    const newer = tested('Back', source('throw new Error("not like this");'));
    await tributary.owner.put(at, newer);
    await send('Back');
    const [dead] = await eventually(
      () => tributary.owner.get<readonly { id: string; reason: string }[]>('./deliveries?status=dead'),
      (found) => found.some(({ reason }) => reason.includes('not like this')),
    );
    const versions = await tributary.owner.get<readonly { version: number }[]>(`${at}/versions`);
    expect(versions.map(({ version }) => version)).toEqual([2, 1]);
    expect(await tributary.owner.get(`${at}/versions/2`)).toMatchObject({
      source_code: newer.source_code,
    });
    const back = await tributary.owner.post<{ version: number; status: string }>(`${at}/rollback`, {
      version: 1,
    });
    expect(back).toMatchObject({ version: 3, status: 'active' });
    await tributary.owner.call('POST', `./deliveries/${dead?.id}/redrive`);
    await send('Back');
    const found = await arrived('Back', 2);
    expect(found.map(({ event }) => event.properties)).toEqual([{ by: 'first' }, { by: 'first' }]);
  });

  it('its runs are counted, wherever they ran', async () => {
    const { at } = await inService(
      'Counted',
      `const { does } = event.properties;
       if (does === 'drop') return null;
       if (does === 'throw') throw new Error('told to');
       return does === 'double' ? [event, event] : event;`,
    );
    for (const does of ['pass', 'drop', 'throw', 'double', 'pass']) await send('Counted', { does });
    const figures = await eventually(
      () => tributary.owner.get<Record<Figure, number>>(`${at}/metrics?hours=2`),
      ({ runs, errors, dropped, fanned_out }) => runs >= 5 && errors >= 1 && dropped >= 1 && fanned_out >= 1,
    );
    // On a busy machine, events sent to the slow queue ran twice; each run is counted with its own outcome.
    const { runs, errors, dropped, fanned_out, outputs } = figures;
    expect(outputs).toBe(runs - errors - dropped + fanned_out);
    expect(runs).toBeLessThanOrEqual(10);
    expect(figures.p50_ms).toBeGreaterThan(0);
    expect(figures.p99_ms).toBeGreaterThanOrEqual(figures.p50_ms);
  });
});
