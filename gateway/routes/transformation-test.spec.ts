import { type CanonicalEvent, type JsonObject, type Sandbox, transformedFrom } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { presentRun } from './event-transformations.ts';
import { runOnce, testStatusOf } from './transformation-test.ts';

const DONE = { logs: [], durationMs: 1, loadMs: 0 } as const;
const SOURCE = { id: 't', source: '', owner: 'w' };

/** A sandbox whose programs return these outputs, JSON texts. */
function returning(outputs: readonly string[]): Sandbox {
  return {
    run: async () => [{ ok: true, outputs, ...DONE }],
    check: async () => undefined,
    close: async () => {},
  };
}

const given = { type: 'track', event: 'E', user_id: 'u', properties: { n: 1 } };

async function statusOf(
  outputs: readonly unknown[],
  test_output: JsonObject | readonly JsonObject[],
  test_input: JsonObject = given,
) {
  const texts = outputs.map((output) => JSON.stringify(output));
  const { test_error } = await testStatusOf(
    returning(texts),
    { source_code: '', test_input, test_output },
    'w',
  );
  return test_error;
}

describe('the test of a transformation', () => {
  it('takes one event for an object or an array of one, and an empty array for a dropped event', async () => {
    expect(await statusOf([given], given)).toBeNull();
    expect(await statusOf([given], [given])).toBeNull();
    expect(await statusOf([], [])).toBeNull();
    expect(await statusOf([], given)).toBe('output: returned 0 events, test_output has 1 event');
  });

  it('states where the output differs, with both values', async () => {
    const other = { ...given, properties: { n: 2 } };
    expect(await statusOf([given], other)).toBe(
      'output: differs from test_output at /properties/n: returned 1, expected 2',
    );
    expect(await statusOf([given, given], [given, { ...given, event: 'F' }])).toBe(
      'output: differs from test_output at /1/event: returned "E", expected "F"',
    );
    expect(
      await statusOf([{ ...given, properties: { n: -0 } }], { ...given, properties: { n: 0 } }),
    ).toBeNull();
  });

  // Each was active, and then every event was a dead delivery.
  it.each([
    [{ ...given, timestamp: 1_577_836_800 }, 'timestamp is a number: write new Date(...).toISOString()'],
    [
      { type: 'track', event: 'E', userId: 'u' },
      'neither user_id nor anonymous_id: write user_id for userId',
    ],
    [{ type: 'track', event: 'E' }, 'neither user_id nor anonymous_id'],
    [{ type: 'track', user_id: 'u' }, 'a track without event, its name'],
    [{ type: 'group', user_id: 'u', groupId: 'g' }, 'a group without group_id: write group_id for groupId'],
    [{ ...given, type: 'purchase' }, 'type is none of'],
    [{ ...given, user_id: 7 }, 'user_id is not a string'],
    [{ ...given, properties: [1] }, 'properties is not an object'],
    [{}, 'type is none of'],
  ])('fails for the output %j, which the pipeline refuses', async (output, message) => {
    expect(await statusOf([output], output as JsonObject)).toMatch(`output: ${message}`);
  });

  it.each([
    [{ ...given, userId: 'u' }, 'input: an event has no userId: write user_id'],
    [{ ...given, total: 3 }, 'input: an event has no total: its own fields are in properties or traits'],
    [{ ...given, type: 'order' }, 'input: type is none of'],
    [{ ...given, user_id: 7 }, 'input: user_id is not a string'],
    [{ ...given, timestamp: 'yesterday' }, 'input: timestamp is not'],
  ])('fails for the input %j, which the pipeline never has', async (input, message) => {
    expect(await statusOf([given], given, input)).toMatch(message);
  });

  it('fills in what every event has, for the function and for the comparison, and does not show it', async () => {
    const seen: string[] = [];
    const same: Sandbox = {
      ...returning([]),
      run: async (_, inputs) =>
        inputs.map(({ event }) => {
          seen.push(event);
          return { ok: true, outputs: [event], ...DONE };
        }),
    };
    for (const part of [
      { properties: { a: 1 } },
      {},
      { type: 'identify' },
      { type: 'group', traits: {} },
      given,
    ]) {
      const fields = { source_code: '', test_input: part, test_output: part };
      expect(await testStatusOf(same, fields, 'w')).toMatchObject({ status: 'active' });
      expect(presentRun(await runOnce(same, SOURCE, part, 'w')).output).toEqual(part);
    }
    expect(JSON.parse(seen[0] ?? '')).toEqual({
      ...{ type: 'track', event: 'Test', user_id: 'test', properties: { a: 1 }, message_id: 'test' },
      ...{ timestamp: '2026-01-01T00:00:00.000Z', received_at: '2026-01-01T00:00:00.000Z' },
      ...{ environment: 'development', workspace_id: 'w' },
    });
  });

  it('shows the digits that are delivered', async () => {
    const sent = JSON.parse('{"type":"track","event":"E","user_id":"u","properties":{}}');
    const event = { ...sent, properties: { id: JSON.rawJSON('9007199254740993'), price: 1.1 } };
    const output =
      '{"type":"track","event":"E","user_id":"u","properties":{"id":9007199254740992,"price":1.10}}';
    const { output: shown } = presentRun(await runOnce(returning([output]), SOURCE, event, 'w'));
    expect(JSON.stringify(shown)).toContain('"properties":{"id":9007199254740993,"price":1.1}');
  });

  it('states how the run failed', async () => {
    const failing: Sandbox = {
      ...returning([]),
      run: async () => [{ ok: false, kind: 'threw', message: 'boom', line: 3, column: 4, ...DONE }],
    };
    expect(presentRun(await runOnce(failing, SOURCE, given, 'w'))).toMatchObject({
      ...{ ok: false, error: 'threw: boom', line: 3, column: 4, output: null },
    });
  });

  it('gives 10,000 random outputs the verdict of the stage', async () => {
    const values: Readonly<Record<string, readonly unknown[]>> = {
      type: ['track', 'identify', 'page', 'group', 'alias', '', null, 3],
      event: ['E', '', null, 1],
      name: ['Home', 2],
      group_id: ['g', '', null],
      user_id: ['u', '', null, 5],
      anonymous_id: ['a', '', null],
      userId: ['u'],
      timestamp: ['2026-02-03T04:05:06Z', '2026-02-30', 'now', null, 1_767_225_600_000],
      traits: [{}, { a: 1 }, [], 'x', null],
      context: [{}, null, 1],
      message_id: ['other', 1],
      source_id: ['s', null],
    };
    const change = fc.oneof(
      ...Object.entries(values).map(([name, of]) =>
        fc.constantFrom(...of).map((value) => ({ [name]: value })),
      ),
      fc.jsonValue().map((properties) => ({ properties })),
    );
    const changed = fc
      .array(change, { maxLength: 3 })
      .map((changes) => Object.assign({ ...given, group_id: 'g' }, ...changes) as object);
    const outputs = fc.array(
      fc.oneof({ weight: 9, arbitrary: changed }, { weight: 1, arbitrary: fc.jsonValue() }),
      { maxLength: 2 },
    );
    let accepted = 0;
    const check = fc.asyncProperty(outputs, async (returned) => {
      const texts = returned.map((value) => JSON.stringify(value));
      const run = await runOnce(returning(texts), SOURCE, given, 'w');
      const source: CanonicalEvent = {
        ...{ message_id: 'm', event: 'E', user_id: 'u', properties: { n: 1 } },
        type: 'track',
        environment: 'production',
        ...{ timestamp: '2026-01-01T00:00:00.000Z', received_at: '2026-01-01T00:00:00.000Z' },
        ...{ workspace_id: 'w', source_id: 's' },
      };
      const staged = transformedFrom(source, { ok: true, outputs: texts, ...DONE }, JSON.stringify(source));
      expect([run.ok, run.ok ? run.events.length : run.message]).toEqual([
        staged.ok,
        staged.ok ? staged.events.length : staged.message,
      ]);
      accepted += Number(run.ok && run.events.length > 0);
    });
    await fc.assert(check, { numRuns: 10_000 });
    expect(accepted).toBeGreaterThan(500);
  });
});
