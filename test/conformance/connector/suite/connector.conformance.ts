import type { ConnectorCatalog, DeliveryResult, Json, JsonObject } from '@tributary/core';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  ATTEMPT,
  type ConnectorHarness,
  completed,
  connectorOf,
  createTestConnectors,
  deliveries,
  delivery,
  descriptionOf,
  destination,
  TIMEOUT_MS,
  unhurried,
} from './harness.ts';

/** The contract of every connector, for any kind of destination. */
export function connectorConformance(type: string, openHarness: () => Promise<ConnectorHarness>) {
  const description = descriptionOf(type);
  describe(`the ${type} connector`, () => {
    let harness: ConnectorHarness;
    let connectors: ConnectorCatalog;
    beforeEach(async () => {
      harness = await openHarness();
      connectors = createTestConnectors(harness.connectors);
    });
    afterEach(async () => {
      await connectors.close();
      await harness.close();
    });
    const connector = () => connectorOf(connectors, type);
    const idsOf = (of: readonly { readonly id: string }[]) => {
      const ids = of.map(({ id }) => id);
      return harness.ordered ? ids : ids.sort();
    };
    const receivedIds = async () => idsOf(await harness.received());
    const destinationWith = (settings: JsonObject = harness.settings) =>
      destination(completed(description, settings));

    it('has a settings schema that a strict validator accepts', () => {
      const ajv = new Ajv2020({ strict: true, allErrors: true });
      expect(ajv.validateSchema(description.settingsSchema)).toBe(true);
      const validate = ajv.compile(description.settingsSchema);
      for (const settings of [harness.settings, completed(description, harness.settings), harness.hopeless]) {
        expect(validate(settings), JSON.stringify(validate.errors)).toBe(true);
        expect(description.check?.(settings) ?? []).toEqual([]);
      }
      for (const bad of [null, [], 'text', {}, { ...harness.settings, unknown: 1 }]) {
        expect(validate(bad)).toBe(false);
      }
    });

    it('has a schema that a form can be drawn from: a title and words for every setting, the type of each', () => {
      const properties = Object.entries(description.settingsSchema.properties ?? {});
      expect(properties.length).toBeGreaterThan(0);
      for (const [name, property] of properties) {
        expect(property, name).toMatchObject({
          type: expect.stringMatching(/^(string|integer|boolean|object|array)$/),
          title: expect.stringMatching(/^\S.{0,60}$/),
          description: expect.stringMatching(/^\S.+\.$/s),
        });
      }
    });

    it('puts no more into one request than its description allows', async () => {
      const { events } = connector().batchLimits(destinationWith());
      expect(events).toBeGreaterThanOrEqual(1);
      expect(events).toBeLessThanOrEqual(description.maxBatch);
    });

    it('has defaults and examples that its own schema accepts', () => {
      const ajv = new Ajv2020({ strict: true });
      for (const property of Object.values(description.settingsSchema.properties ?? {})) {
        const { default: byDefault, examples = [] } = property as { default?: Json; examples?: Json[] };
        const validate = ajv.compile(property as JsonObject);
        for (const value of byDefault === undefined ? examples : [byDefault, ...examples]) {
          expect(validate(value), JSON.stringify(value)).toBe(true);
        }
      }
    });

    it('names as secrets what its schema marks as such', () => {
      const marked = Object.entries(description.settingsSchema.properties ?? {}).filter(
        ([, property]) => (property as { writeOnly?: boolean }).writeOnly === true,
      );
      expect([...description.secrets]).toEqual(marked.map(([name]) => name));
    });

    it('generates absent secrets and leaves given ones unchanged', () => {
      expect(completed(description, harness.settings)).toEqual(harness.settings);
      expect(completed(description, harness.hopeless)).toMatchObject(harness.hopeless);
    });

    it('delivers one', async () => {
      const sent = delivery();
      const results = await connector().deliver(destinationWith(), [sent], unhurried);
      expect(results).toMatchObject([{ outcome: 'delivered' }]);
      expect(await harness.received()).toEqual([
        {
          id: sent.id,
          type: 'event',
          event: JSON.parse(JSON.stringify(sent.event)),
          rule_id: sent.rule_id,
          destination_id: sent.destination_id,
          attempt: 1,
        },
      ]);
    });

    it('counts the attempts that were made before, under the same id', async () => {
      const sent = delivery(0, [ATTEMPT, ATTEMPT]);
      await connector().deliver(destinationWith(), [sent], unhurried);
      expect(await harness.received()).toMatchObject([{ id: sent.id, attempt: 3 }]);
    });

    it('accepts batches up to its stated bound, and keeps their order', async () => {
      const size = connector().batchLimits(destinationWith()).events;
      const sent = deliveries(size);
      const results = await connector().deliver(destinationWith(), sent, unhurried);
      expect(results.map(({ outcome }) => outcome)).toEqual(sent.map(() => 'delivered'));
      expect(await receivedIds()).toEqual(idsOf(sent));
    });

    it('answers for every delivery also when given more than its bound', async () => {
      const sent = deliveries(connector().batchLimits(destinationWith()).events + 1);
      const results = await connector().deliver(destinationWith(), sent, unhurried);
      expect(results).toHaveLength(sent.length);
      expect(await receivedIds()).toEqual(idsOf(sent));
    });

    it('keeps calls apart that are made at the same time', async () => {
      const calls = Array.from({ length: 40 }, () => deliveries(3));
      const answers = await Promise.all(
        calls.map((sent) => connector().deliver(destinationWith(), sent, unhurried)),
      );
      expect(answers.flat().map(({ outcome }) => outcome)).toEqual(Array(120).fill('delivered'));
      const ids = calls.flat().map(({ id }) => id);
      expect((await harness.received()).map(({ id }) => id).sort()).toEqual(ids.sort());
    });

    it('answers retry for a transient error, for every delivery, and delivers once it is over', async () => {
      const sent = deliveries(3);
      await harness.fail();
      const failed = await connector().deliver(destinationWith(), sent, unhurried);
      expect(failed.map(({ outcome }) => outcome)).toEqual(['retry', 'retry', 'retry']);
      await harness.mend();
      const again = await connector().deliver(destinationWith(), sent, unhurried);
      expect(again.map(({ outcome }) => outcome)).toEqual(['delivered', 'delivered', 'delivered']);
      expect(await receivedIds()).toEqual(idsOf(sent));
    });

    it('answers dead, with a reason, for what cannot pass', async () => {
      const results = await connector().deliver(destinationWith(harness.hopeless), deliveries(2), unhurried);
      expect(results).toEqual([
        expect.objectContaining({ outcome: 'dead', reason: expect.stringMatching(/^[a-z ]{5,80}$/) }),
        expect.objectContaining({ outcome: 'dead' }),
      ]);
    });

    it('never throws, whatever the settings are', async () => {
      const names = Object.keys(harness.settings);
      const values = [null, true, 0, -1, 1e9, '', 'x', '\0', '../..', [], {}, { a: { b: [] } }];
      const spoiled = names.flatMap((name) =>
        values.map((value) => ({ ...harness.settings, [name]: value })),
      );
      // Some of these settings lead to a server that never responds.
      const impatient = createTestConnectors({ ...harness.connectors, timeoutMs: TIMEOUT_MS });
      const spoilt = connectorOf(impatient, type);
      for (const settings of [{}, ...spoiled]) {
        expect(spoilt.batchLimits(destination(settings)).events).toBeGreaterThanOrEqual(1);
        const results = await spoilt.deliver(destination(settings), deliveries(2), unhurried);
        expect(results, JSON.stringify(settings)).toHaveLength(2);
        const tested = await spoilt.test(destination(settings), unhurried);
        expect(tested.ok || tested.reason.length > 0).toBe(true);
      }
      await impatient.close();
    });

    it('sends nothing for a cancelled delivery, and asks for another attempt', async () => {
      const options = { signal: AbortSignal.abort() };
      const results = await connector().deliver(destinationWith(), deliveries(2), options);
      expect(results).toEqual(Array(2).fill({ outcome: 'retry', reason: 'stopped' }));
      expect(await harness.received()).toEqual([]);
    });

    describe('a connection test', () => {
      it('states that a destination accepts deliveries, and sends none', async () => {
        expect(await connector().test(destinationWith(), unhurried)).toMatchObject({ ok: true });
        expect(await harness.received()).toEqual([]);
        await connector().deliver(destinationWith(), [delivery()], unhurried);
        expect(await connector().test(destinationWith(), unhurried)).toMatchObject({ ok: true });
        expect(await harness.received()).toHaveLength(1);
      });

      it('states why a destination refuses, now or permanently, in the same words as a delivery', async () => {
        const reason = { ok: false, reason: expect.stringMatching(/^[a-zA-Z0-9() _-]{5,80}$/) };
        expect(await connector().test(destinationWith(harness.hopeless), unhurried)).toMatchObject(reason);
        await harness.fail();
        const failed = await connector().test(destinationWith(), unhurried);
        expect(failed).toMatchObject(reason);
        await harness.mend();
        expect(await connector().test(destinationWith(), unhurried)).toMatchObject({ ok: true });
      });

      it('sends nothing for a cancelled caller, nor after the close', async () => {
        const stopped = { ok: false, reason: 'stopped' };
        expect(await connector().test(destinationWith(), { signal: AbortSignal.abort() })).toEqual(stopped);
        await connectors.close();
        expect(await connector().test(destinationWith(), unhurried)).toEqual(stopped);
      });
    });

    it('exposes no secret in a reason or a response', async () => {
      const results: DeliveryResult[] = [];
      results.push(...(await connector().deliver(destinationWith(), [delivery()], unhurried)));
      await harness.fail();
      results.push(...(await connector().deliver(destinationWith(), [delivery()], unhurried)));
      results.push(
        ...(await connector().deliver(destinationWith(harness.hopeless), [delivery()], unhurried)),
      );
      expect(results.map(({ outcome }) => outcome)).toEqual(['delivered', 'retry', 'dead']);
      const tests = [await connector().test(destinationWith(), unhurried)];
      tests.push(await connector().test(destinationWith(harness.hopeless), unhurried));
      const told = JSON.stringify([results, tests]);
      for (const name of description.secrets) {
        for (const secret of textsIn(harness.settings[name])) expect(told).not.toContain(secret);
      }
      const reasons = JSON.stringify(results.map((result) => ('reason' in result ? result.reason : '')));
      expect(reasons).not.toMatch(/https?:|[0-9]+[.][0-9]+|[/\\]|key=/);
    });

    it('is closed as often as one likes, and asks for another attempt after that', async () => {
      const held = connector();
      await held.deliver(destinationWith(), [delivery()], unhurried);
      await Promise.all([held.close(), connectors.close()]);
      await held.close();
      const results = await held.deliver(destinationWith(), deliveries(2), unhurried);
      expect(results).toEqual(Array(2).fill({ outcome: 'retry', reason: 'stopped' }));
      expect(await harness.received()).toHaveLength(1);
    });

    it('accepts nothing when it is first asked for after the close', async () => {
      await connectors.close();
      const results = await connector().deliver(destinationWith(), deliveries(2), unhurried);
      expect(results).toEqual(Array(2).fill({ outcome: 'retry', reason: 'stopped' }));
      expect(await harness.received()).toEqual([]);
    });

    it('leaves no second copy of a repeated delivery, where its description says so', async () => {
      const sent = deliveries(3);
      const later = sent.map((one) => ({ ...one, attempts: [ATTEMPT] }));
      await connector().deliver(destinationWith(), sent, unhurried);
      for (const repeated of [later, later]) {
        const again = await connector().deliver(destinationWith(), repeated, unhurried);
        expect(again.map(({ outcome }) => outcome)).toEqual(['delivered', 'delivered', 'delivered']);
      }
      const times = harness.idempotent ? 1 : 3;
      expect(await receivedIds()).toEqual(idsOf(Array(times).fill(sent).flat()));
    });

    it('two rows of one event by its replay: leaves one of an id in one request, where its description says so', async () => {
      const [first, second] = [delivery(0), delivery(1)];
      const replayed = { ...first, replay: 'r-1' };
      const results = await connector().deliver(destinationWith(), [first, replayed, second], unhurried);
      expect(results.map(({ outcome }) => outcome)).toEqual(['delivered', 'delivered', 'delivered']);
      const got = idsOf(await harness.received());
      expect([...new Set(got)]).toEqual(idsOf([first, second]));
      const { events } = connector().batchLimits(destinationWith());
      // An object contains the deliveries of one request, repeated ids too.
      if (harness.idempotent && type !== 's3' && events > 1) expect(got).toHaveLength(2);
    });

    it('finishes at its close the calls under way', async () => {
      const sent = deliveries(2);
      const begun = connector().deliver(destinationWith(), sent, unhurried);
      await connectors.close();
      expect((await begun).map(({ outcome }) => outcome)).toEqual(['delivered', 'delivered']);
      expect(await harness.received()).toHaveLength(2);
    });
  });
}

function textsIn(setting: JsonObject[string] | undefined): readonly string[] {
  if (typeof setting === 'string') return [setting];
  return typeof setting === 'object' && setting !== null ? Object.values(setting).flatMap(textsIn) : [];
}
