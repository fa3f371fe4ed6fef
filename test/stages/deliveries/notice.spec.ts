import {
  type Alerts,
  type Delivery,
  type Fact,
  HEADER,
  type HealthChange,
  type Mail,
  newId,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Told } from '../../helpers/recording-logger.ts';
import { entryOf, handedOn, START, setUp, topicsOf } from '../harness.ts';
import { MemoryCatalog, ORGANIZATION, WORKSPACE } from '../memory-catalog.ts';

const BROKEN = '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b01';
const CHANNEL = '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b02';
const AT = new Date(START).toISOString();

const turnOf = (fields: Partial<HealthChange> = {}): HealthChange => ({
  id: newId(),
  state: 'bad',
  because: 'failing',
  since: AT,
  paced_until: AT,
  delivered_per_second: 0,
  failed_per_second: 1,
  oldest_waiting_ms: null,
  last_errors: [{ at: AT, reason: 'answered 503', status: 503 }],
  ...fields,
});

/** The stage, a destination with the given alerts, and a mail address for notices. */
function setUpNotice(alerts: Partial<Alerts> | null, notification_email: string | null = null) {
  const told = new Told();
  const sent: Mail[] = [];
  const catalog = new MemoryCatalog();
  catalog.add('organization.updated', ORGANIZATION, { name: 'o', regions: ['eu'], notification_email });
  catalog.addDestination(CHANNEL, { name: 'Ops' });
  const complete = alerts && { enabled: true, destination_id: null, email: null, ...alerts };
  catalog.addDestination(BROKEN, {
    name: 'CRM',
    settings: { url: 'https://crm.example.com', secret: { $sealed: 'k.i.t' } },
    alerts: complete,
  });
  const mailer = {
    async send(mail: Mail) {
      sent.push(mail);
      return { kind: 'sent' } as const;
    },
    async close() {},
  };
  const set = setUp({}, { catalog, mailer, logger: told.logger, metrics: told.metrics });
  /** A health change, as accepted or refused by the catalog. */
  const turned = async (turn: HealthChange, seen = 0, at = AT) => {
    const offset = catalog.position;
    const from = { address: '', request_id: '' };
    const fact: Fact = {
      v: 1,
      type: 'destination.turned',
      entity: BROKEN,
      expected_version: seen,
      data: turn,
      by: 'stage:deliver',
      from,
      at,
    };
    await catalog.propose(fact);
    return entryOf(TOPIC.catalog, offset, fact);
  };
  return { ...set, catalog, sent, told, turned };
}

describe('notice', () => {
  it('creates a delivery of a track event to the alert destination', async () => {
    const { run, turned } = setUpNotice({ destination_id: CHANNEL }, 'org@example.com');
    const turn = turnOf();
    const entry = await turned(turn);
    const outputRecords = await run('notice', [entry]);
    expect(topicsOf(outputRecords)).toEqual([TOPIC.deliveries]);
    const delivery = JSON.parse(outputRecords[0]?.value ?? '') as Delivery;
    expect(delivery).toMatchObject({
      destination_id: CHANNEL,
      rule_id: BROKEN,
      message_id: turn.id,
      created_at: AT,
    });
    expect(delivery.event).toMatchObject({
      type: 'track',
      event: 'Destination Bad',
      anonymous_id: BROKEN,
      message_id: turn.id,
      properties: {
        state: 'bad',
        because: 'failing',
        since: AT,
        destination: { id: BROKEN, name: 'CRM', type: 'scripted' },
        workspace: { id: WORKSPACE, name: 'w' },
        last_errors: [{ reason: 'answered 503', status: 503 }],
      },
    });
    expect(outputRecords[0]?.value).not.toMatch(/sealed|crm\.example|org@/);
    // A crash before the commit: the same output again, to the byte.
    expect(await run('notice', [entry])).toEqual(outputRecords);
  });

  it('creates a delivery that is made and retried like any other', async () => {
    const { run, turned, world } = setUpNotice({ destination_id: CHANNEL });
    const [outputRecord] = await run('notice', [await turned(turnOf())]);
    world.deliver = () => ({ outcome: 'retry', reason: 'answered 500', status: 500 });
    expect(topicsOf(await run('deliver', [handedOn(outputRecord)]))).toContain('deliveries.retry.10s');
    world.deliver = () => ({ outcome: 'delivered' });
    expect(await run('deliver', [handedOn(outputRecord, 1)])).toEqual([]);
  });

  it('creates a mail to the address at the time of sending', async () => {
    const { run, turned, sent, catalog } = setUpNotice({ email: 'first@example.com' });
    const turn = turnOf();
    const outputRecords = await run('notice', [await turned(turn)]);
    expect(topicsOf(outputRecords)).toEqual([TOPIC.mail]);
    expect(outputRecords[0]?.value).not.toContain('@');
    expect(outputRecords[0]?.headers[HEADER.catalogPosition]).toBe(String(catalog.position));
    const alerts = { enabled: true, destination_id: null, email: 'second@example.com' };
    catalog.add('destination.updated', BROKEN, { alerts });
    await run('mail', [handedOn(outputRecords[0])]);
    expect(sent).toMatchObject([
      { id: turn.id, to: 'second@example.com', subject: 'Destination unhealthy: CRM' },
    ]);
  });

  it.each([
    ['says nothing: the organization', null, ['org@example.com']],
    ['names an address: that alone', { email: 'ops@example.com' }, ['ops@example.com']],
    [
      'names a destination that is not there any more: the organization',
      { destination_id: newId() },
      ['org@example.com'],
    ],
    ['turned them off: nobody', { enabled: false, email: 'ops@example.com', destination_id: CHANNEL }, []],
  ] as const)('states where the destination %s', async (_what, alerts, expected) => {
    const { run, turned, sent, told } = setUpNotice(alerts, 'org@example.com');
    const outputRecords = await run('notice', [await turned(turnOf())]);
    for (const outputRecord of outputRecords) await run('mail', [handedOn(outputRecord)]);
    expect(sent.map(({ to }) => to)).toEqual(expected);
    const channel = expected.length === 0 ? 'none' : 'mail';
    expect(told.counts[`tributary_destination_health_notices_total{state=bad,channel=${channel}}`]).toBe(1);
  });

  it('uses the receivers of the workspace if the destination has none, except the destination itself', async () => {
    const { run, turned, catalog } = setUpNotice(null, 'org@example.com');
    const workspace = { name: 'w', region: 'eu' };
    const tellTo = (destination_id: string) => {
      const alerts = { enabled: true, destination_id, email: null };
      catalog.add('workspace.updated', WORKSPACE, { ...workspace, alerts });
    };
    tellTo(CHANNEL);
    const bad = await turned(turnOf());
    expect(topicsOf(await run('notice', [bad]))).toEqual([TOPIC.deliveries]);
    tellTo(BROKEN);
    expect(topicsOf(await run('notice', [bad]))).toEqual([TOPIC.mail]);
    tellTo(CHANNEL);
    catalog.add('destination.updated', CHANNEL, { enabled: false });
    expect(topicsOf(await run('notice', [bad]))).toEqual([TOPIC.mail]);
    catalog.add('workspace.updated', WORKSPACE, workspace);
    expect(catalog.state.workspace(WORKSPACE)?.alerts).toMatchObject({ destination_id: CHANNEL });
  });

  it('alerts once for two concurrent changes, and never for one that is a day old', async () => {
    const { run, turned } = setUpNotice({ destination_id: CHANNEL });
    const [first, second] = [await turned(turnOf()), await turned(turnOf())];
    expect(await run('notice', [first, second])).toHaveLength(1);
    const old = await turned(turnOf({ state: 'well', because: null }), 1, '2025-12-30T10:00:00.000Z');
    expect(await run('notice', [old])).toEqual([]);
  });

  it('alerts for a change also if the next one arrived before the alert', async () => {
    const { run, turned } = setUpNotice({ destination_id: CHANNEL });
    const bad = await turned(turnOf());
    const well = await turned(turnOf({ state: 'well', because: null }), 1);
    const events = (await run('notice', [bad, well])).map(
      ({ value }) => (JSON.parse(value) as Delivery).event.event,
    );
    expect(events).toEqual(['Destination Bad', 'Destination Well']);
  });
});
