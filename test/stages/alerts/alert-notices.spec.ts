import {
  type Alert,
  type AlertChange,
  type Delivery,
  type Draft,
  type Fact,
  type Mail,
  newId,
  TOPIC,
} from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { Told } from '../../helpers/recording-logger.ts';
import { entryOf, handedOn, START, setUp, topicsOf } from '../harness.ts';
import { MemoryCatalog, ORGANIZATION, WORKSPACE } from '../memory-catalog.ts';

const ALERT = '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b01';
const CHANNEL = '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b02';
const WATCHED = '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b03';
const AT = new Date(START).toISOString();

const turnOf = (fields: Partial<AlertChange> = {}): AlertChange => ({
  id: newId(),
  state: 'firing',
  value: 12,
  limit: 50,
  expected: 100,
  from: AT,
  until: AT,
  paced_until: AT,
  ...fields,
});

const VOLUME = {
  kind: 'volume',
  source_id: null,
  event_type: 'track',
  event_name: 'Order Placed\r\nBcc: all@example.com',
  direction: 'below',
  tolerance: 0.5,
  weeks: 4,
  minimum: 20,
} as const;

/** The stages notice and mail, and an alert with these fields. */
function setUpAlert(fields: Partial<Draft<Alert>> = {}, notification_email: string | null = null) {
  const told = new Told();
  const sent: Mail[] = [];
  const catalog = new MemoryCatalog();
  catalog.add('organization.updated', ORGANIZATION, { name: 'o', regions: ['eu'], notification_email });
  catalog.addDestination(CHANNEL, { name: 'Ops' });
  catalog.addDestination(WATCHED, { name: 'CRM' });
  catalog.add('alert.created', ALERT, {
    id: ALERT,
    workspace_id: WORKSPACE,
    name: 'Orders',
    environment: 'production',
    watch: VOLUME,
    time_zone: 'Europe/Berlin',
    quiet_hours: null,
    enabled: true,
    destination_id: null,
    email: null,
    created_by: 'a',
    ...fields,
  });
  const mailer = {
    async send(mail: Mail) {
      sent.push(mail);
      return { kind: 'sent' } as const;
    },
    async close() {},
  };
  const set = setUp({}, { catalog, mailer, logger: told.logger, metrics: told.metrics });
  /** A change, as accepted or refused by the catalog. */
  const turned = async (turn: AlertChange, seen = 0) => {
    const offset = catalog.position;
    const fact: Fact = {
      v: 1,
      type: 'alert.turned',
      entity: ALERT,
      expected_version: seen,
      data: turn,
      by: 'stage:notice',
      from: { address: '', request_id: '' },
      at: AT,
    };
    await catalog.propose(fact);
    return entryOf(TOPIC.catalog, offset, fact);
  };
  return { ...set, catalog, sent, turned };
}

describe('a notice of an alert', () => {
  it('is a delivery of a track event, byte-identical after a crash', async () => {
    const { run, turned } = setUpAlert({ destination_id: CHANNEL }, 'org@example.com');
    const turn = turnOf();
    const entry = await turned(turn);
    const outputRecords = await run('notice', [entry]);
    expect(topicsOf(outputRecords)).toEqual([TOPIC.deliveries]);
    const delivery = JSON.parse(outputRecords[0]?.value ?? '') as Delivery;
    expect(delivery).toMatchObject({ destination_id: CHANNEL, rule_id: ALERT, message_id: turn.id });
    const { id: _id, paced_until: _pace, ...numbers } = turn;
    expect(delivery.event).toMatchObject({
      type: 'track',
      event: 'Alert Firing',
      anonymous_id: ALERT,
      properties: {
        ...numbers,
        alert: { id: ALERT, name: 'Orders', environment: 'production', watch: VOLUME },
        workspace: { id: WORKSPACE },
      },
    });
    expect(outputRecords[0]?.value).not.toContain('org@');
    expect(await run('notice', [entry])).toEqual(outputRecords);
    expect(await run('deliver', [handedOn(outputRecords[0])])).toEqual([]);
  });

  it('is a mail with the watched number and the measurement, on single lines', async () => {
    const { run, time, turned, sent } = setUpAlert({ email: 'ops@example.com' });
    for (const [seen, state] of (['firing', 'ok'] as const).entries()) {
      for (const outputRecord of await run('notice', [await turned(turnOf({ state }), seen)]))
        await run('mail', [handedOn(outputRecord, seen)]);
      time.pass(60_000);
    }
    expect(sent.map(({ to, subject }) => [to, subject])).toEqual([
      ['ops@example.com', 'Alert: Orders'],
      ['ops@example.com', 'Recovered: Orders'],
    ]);
    expect(sent[0]?.text).toContain('There are fewer events than at this hour of the week before.');
    expect(sent[0]?.text).toContain('Event:       track Order Placed Bcc: all@example.com\n');
    expect(sent[0]?.text).toContain(
      'Measured:    12 events\nExpected:    100 events\nLimit:       50 events\n',
    );
  });

  it.each([
    [
      { kind: 'silence', source_id: null, event_type: null, event_name: null, minutes: 30 },
      0,
      'Measured:    0 events',
    ],
    [
      {
        kind: 'violations',
        source_id: null,
        event_type: null,
        event_name: null,
        minutes: 30,
        share: 0.05,
        minimum: 1,
      },
      0.1234,
      'Measured:    12.34 %',
    ],
    [
      { kind: 'delivery_rate', destination_id: WATCHED, minutes: 30, share: 0.9, minimum: 1 },
      0.5,
      `Destination: ${WATCHED}`,
    ],
    [{ kind: 'backlog', destination_id: null, minutes: 60 }, 61.2, 'Measured:    61 minutes'],
  ] as const)('states the measure of %j', async (watch, value, line) => {
    const { run, turned, sent } = setUpAlert({ watch, email: 'ops@example.com' });
    const [outputRecord] = await run('notice', [await turned(turnOf({ value, expected: null }))]);
    await run('mail', [handedOn(outputRecord)]);
    expect(sent[0]?.text).toContain(line);
    expect(sent[0]?.text).not.toContain('Expected');
  });

  it.each([
    ['its own, both', { destination_id: CHANNEL, email: 'ops@example.com' }, [TOPIC.mail, TOPIC.deliveries]],
    ['without own those of the organization', {}, [TOPIC.mail]],
    [
      'not to the destination that it is about',
      {
        destination_id: WATCHED,
        email: 'ops@example.com',
        watch: { kind: 'backlog', destination_id: WATCHED, minutes: 60 },
      },
      [TOPIC.mail],
    ],
  ] as const)('has recipients: %s', async (_what, fields, topics) => {
    const { run, turned } = setUpAlert(fields, 'org@example.com');
    expect(topicsOf(await run('notice', [await turned(turnOf())]))).toEqual(topics);
  });

  it('is sent to the receivers of the workspace if the alert has none', async () => {
    const { run, turned, catalog, sent } = setUpAlert({}, 'org@example.com');
    const alerts = { enabled: true, destination_id: CHANNEL, email: 'team@example.com' };
    catalog.add('workspace.updated', WORKSPACE, { name: 'w', region: 'eu', alerts });
    const outputRecords = await run('notice', [await turned(turnOf())]);
    expect(topicsOf(outputRecords)).toEqual([TOPIC.mail, TOPIC.deliveries]);
    await run('mail', [handedOn(outputRecords[0])]);
    expect(sent[0]?.to).toBe('team@example.com');
  });

  it('is not sent for a proposal that was not applied, nor for a deleted alert', async () => {
    const { run, turned, catalog } = setUpAlert({ email: 'ops@example.com' });
    const first = await turned(turnOf());
    const second = await turned(turnOf());
    expect(await run('notice', [second])).toEqual([]);
    expect(await run('notice', [first])).toHaveLength(1);
    catalog.add('alert.deleted', ALERT, {});
    expect(await run('notice', [first])).toEqual([]);
  });
});
