import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';
import { startWebhook, type Webhook } from '../../helpers/webhook.ts';

/** What every object inherits, and what a promise, a class or a serializer asks of one. */
const NAMES = [
  ...Object.getOwnPropertyNames(Object.prototype).filter((name) => name !== '__proto__'),
  ...['prototype', 'then', 'catch', 'toJSON', 'length', 'rawJSON', 'buffer', 'map', 'event', 'hash'],
];
const VALUES = ['McLaren', null, { name: 'x', constructor: null }, 7, [{ constructor: 'y' }]];

interface Created {
  readonly id: string;
}

/**
 * Keys of an event are data, whatever their name, in every place where they meet code: ingestion, contracts, inference,
 * filters, transformations, profiles, deliveries. (`__proto__` is left out at ingestion, with a note.)
 */
describe('Names that objects inherit', () => {
  let tributary: Tributary;
  let webhook: Webhook;
  beforeAll(async () => {
    tributary = await startTributary();
    webhook = await startWebhook();
    const { owner } = tributary;
    const destination = await owner.post<Created>('./destinations', {
      name: 'hook',
      type: 'webhook',
      settings: { url: webhook.url },
    });
    const sample = {
      type: 'track',
      event: 'E',
      user_id: 'u',
      properties: { constructor: { toString: null } },
    };
    const same = await owner.post<Created & { test_error: string | null }>('./event-transformations', {
      name: 'same',
      source_code: `function transform({ properties, traits, ...event }) {
        const copied = (object) => object && Object.fromEntries(Object.entries(object));
        return { ...event, properties: copied(properties), traits: copied(traits) };
      }`,
      test_input: sample,
      test_output: sample,
    });
    expect(same.test_error).toBeNull();
    for (const name of NAMES) {
      await owner.post('./event-contracts', {
        name,
        event_type: 'track',
        event_name: name,
        schema_definition: { properties: { [name]: {}, list: { items: { properties: { [name]: {} } } } } },
        undeclared_fields: 'omit',
      });
      await owner.post('./event-forwarding-rules', {
        name,
        destination_id: destination.id,
        event_names: [name],
        transformation_id: same.id,
        filter: `has(event.properties.${name}) && "${name}" in event.properties && size(event.properties) == 2`,
      });
    }
    await owner.post('./event-forwarding-rules', {
      name: 'people',
      destination_id: destination.id,
      event_types: ['identify'],
    });
  });
  afterAll(async () => {
    await tributary.remove();
    await webhook.close();
  });

  it.each(VALUES.map((value) => [value]))(
    'are fields of an event with the value %j from its receipt to its delivery',
    async (value) => {
      const id = (name: string) => `${name}-${VALUES.indexOf(value)}`;
      for (const name of NAMES) {
        const properties = { [name]: value, list: [{ [name]: value }], [`${name}2`]: 1 };
        const subject = name.padEnd(3, '_');
        await tributary.producer.post('./events/batch', {
          batch: [
            { type: 'track', message_id: id(name), user_id: subject, event: name, properties },
            {
              type: 'identify',
              message_id: `p-${id(name)}`,
              user_id: subject,
              traits: properties,
              context: properties,
            },
          ],
        });
      }
      const eventOf = async (messageId: string) => {
        const [found] = await eventually(
          () => webhook.deliveries().filter(({ event }) => event.message_id === messageId),
          (deliveries) => deliveries.length > 0,
        );
        return found?.event;
      };
      for (const name of NAMES) {
        // The undeclared field is omitted, and no other.
        const kept = { [name]: value, list: [{ [name]: value }] };
        const whole = { ...kept, [`${name}2`]: 1 };
        expect(await eventOf(id(name))).toMatchObject({ event: name, properties: kept });
        expect(await eventOf(`p-${id(name)}`)).toMatchObject({ traits: whole, context: whole });
      }
    },
  );

  it('are fields of an inferred contract', async () => {
    const { owner } = tributary;
    for (const name of NAMES) {
      const body = { event_type: 'track', event_name: name };
      const { contract } = await owner.post<{ contract: { schema_definition: { properties: object } } }>(
        './event-contracts/infer',
        body,
      );
      expect(Object.keys(contract.schema_definition.properties).sort()).toEqual([name, 'list'].sort());
    }
  });
});
