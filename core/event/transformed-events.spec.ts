import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseExact } from '../primitives/json.ts';
import { type CanonicalEvent, MAX_EVENT_BYTES } from './event.ts';
import { eventFrom, transformedFrom } from './transformed-events.ts';

const SOURCE: CanonicalEvent = {
  message_id: 'm1',
  type: 'track',
  event: 'A',
  user_id: 'u1',
  properties: { a: 1 },
  timestamp: '2026-01-01T00:00:00.000Z',
  received_at: '2026-01-01T00:00:01.000Z',
  environment: 'production',
  workspace_id: 'w1',
};

function from(output: unknown): CanonicalEvent {
  return eventFrom(SOURCE, JSON.stringify(output));
}

describe('eventFrom', () => {
  it('lets an output change the event but not its workspace, environment and id', () => {
    const event = from({
      type: 'identify',
      anonymous_id: 'b',
      traits: { x: 1 },
      message_id: 'other',
      workspace_id: 'foreign',
      environment: 'development',
      received_at: '1999-01-01T00:00:00.000Z',
    });
    expect(event).toEqual({
      type: 'identify',
      anonymous_id: 'b',
      traits: { x: 1 },
      message_id: 'm1',
      workspace_id: 'w1',
      environment: 'production',
      received_at: SOURCE.received_at,
      timestamp: SOURCE.timestamp,
    });
  });

  it('keeps the source, which a transformation that builds its event from scratch left out', () => {
    const source = { ...SOURCE, source_id: 's1' };
    const output = JSON.stringify({ type: 'track', event: 'B', user_id: 'u1', source_id: 'another' });
    expect(eventFrom(source, output).source_id).toBe('s1');
    expect(JSON.parse(JSON.stringify(eventFrom(SOURCE, output)))).not.toHaveProperty('source_id');
  });

  it('uses the timestamp of an output that has one', () => {
    expect(from({ ...SOURCE, timestamp: '2020-01-01T00:00:00Z' }).timestamp).toBe('2020-01-01T00:00:00.000Z');
    expect(from({ ...SOURCE, timestamp: '2020-01-01 01:00+01:00' }).timestamp).toBe(
      '2020-01-01T00:00:00.000Z',
    );
    for (const none of [1_577_836_800, 'Jan 1, 2020', '2020-1-01T00:00:00Z', '2020-02-30'])
      expect(() => from({ ...SOURCE, timestamp: none })).toThrow('timestamp');
    expect(() => from({ ...SOURCE, timestamp: 'yesterday' })).toThrow('timestamp');
  });

  it('leaves null fields out', () => {
    expect(from({ ...SOURCE, anonymous_id: null, properties: null })).not.toHaveProperty('properties');
    expect(() => from({ ...SOURCE, user_id: null })).toThrow('neither user_id nor anonymous_id');
  });

  it('reads an empty user_id or anonymous_id beside the other as absent', () => {
    const guest = from({ ...SOURCE, user_id: '', anonymous_id: 'cookie-7', properties: { name: '' } });
    expect(guest).toMatchObject({ anonymous_id: 'cookie-7', properties: { name: '' } });
    expect(guest).not.toHaveProperty('user_id');
    expect(from({ ...SOURCE, user_id: 'u9', anonymous_id: '' })).not.toHaveProperty('anonymous_id');
    expect(() => from({ ...SOURCE, user_id: '', anonymous_id: '' })).toThrow(
      'neither user_id nor anonymous_id',
    );
  });

  it.each([
    ['an array', [SOURCE], 'not a JSON object'],
    ['a number', 1, 'not a JSON object'],
    ['no type', { user_id: 'u' }, 'type is none of'],
    ['an unknown type', { ...SOURCE, type: 'delete' }, 'type is none of'],
    ['an empty subject', { ...SOURCE, user_id: '' }, 'neither user_id nor anonymous_id'],
    ['a subject that is a number', { ...SOURCE, user_id: 7 }, 'user_id is not a string'],
    ['properties that are a list', { ...SOURCE, properties: [] }, 'properties is not an object'],
    ['too much', { ...SOURCE, properties: { a: 'ü'.repeat(MAX_EVENT_BYTES / 2) } }, 'more than'],
  ])('refuses %s', (_name, output, message) => {
    expect(() => from(output)).toThrow(message);
  });

  it('refused an output as large as its event, which had become larger than what its producer sent', () => {
    const sized = (bytes: number) => ({ ...SOURCE, properties: { a: 'x'.repeat(bytes) } });
    const text = JSON.stringify(sized(MAX_EVENT_BYTES + 900));
    const read = (bytes: number) => eventFrom(SOURCE, JSON.stringify(sized(bytes)), text);
    expect(read(MAX_EVENT_BYTES + 900 + 1_024)).toHaveProperty('properties');
    expect(() => read(MAX_EVENT_BYTES + 901 + 1_024)).toThrow(`more than ${text.length + 1_024} bytes`);
    expect(() => eventFrom(SOURCE, text)).toThrow(`more than ${MAX_EVENT_BYTES} bytes`);
  });

  it('let an output grow beyond its bound by the digits of one number, repeated', () => {
    const text = `{"properties":{"id":0.${'123456789'.repeat(1_500)}}}`;
    const doubles = Array.from({ length: 50 }, () => JSON.parse(text).properties.id);
    const output = JSON.stringify({ ...SOURCE, properties: { doubles } });
    expect(() => eventFrom(SOURCE, output, text, parseExact(text))).toThrow('more than');
  });

  it('never lets an output leave its workspace, whatever it returns', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (fields) => {
        const output = JSON.stringify({ ...fields, type: 'track', user_id: 'u' });
        const result = transformedFrom(SOURCE, {
          ok: true,
          outputs: [output],
          logs: [],
          durationMs: 1,
          loadMs: 0,
        });
        if (!result.ok) return result.kind === 'output';
        return result.events.every((event) => event.workspace_id === 'w1' && event.message_id === 'm1');
      }),
    );
  });

  it('made the trace of other events fail where it was nested thousands of levels deep', () => {
    const nested = (levels: number) =>
      `{"type":"track","event":"A","user_id":"u","properties":{"a":${'['.repeat(levels - 2)}${']'.repeat(levels - 2)}}}`;
    expect(eventFrom(SOURCE, nested(128))).toMatchObject({ event: 'A' });
    expect(() => eventFrom(SOURCE, nested(129))).toThrow('is nested more than 128 levels deep');
    expect(() => eventFrom(SOURCE, nested(5_000))).toThrow('is nested more than 128 levels deep');
  });
});

describe('transformedFrom', () => {
  it('fails the whole event for one bad output', () => {
    const outputs = [JSON.stringify(SOURCE), '{}'];
    expect(transformedFrom(SOURCE, { ok: true, outputs, logs: [], durationMs: 1, loadMs: 0 })).toMatchObject({
      ok: false,
      kind: 'output',
    });
  });

  it('passes the sandbox on, with a message of bounded length', () => {
    const message = 'x'.repeat(10_000);
    const failed = transformedFrom(SOURCE, {
      ok: false,
      kind: 'threw',
      message,
      logs: [],
      durationMs: 1,
      loadMs: 0,
    });
    expect(failed).toMatchObject({ ok: false, kind: 'threw' });
    expect(failed.ok ? '' : failed.message.length).toBeLessThan(600);
  });
});

describe('an output', () => {
  const text = '{"properties":{"post":8123456789012345678}}';
  const made = (output: string) => {
    const result = { ok: true, outputs: [output], logs: [], durationMs: 1, loadMs: 0 } as const;
    return transformedFrom(SOURCE, result, text);
  };
  const base = '"type":"track","event":"E","user_id":"u"';

  it('has the digits of numbers that its function did not change', () => {
    const output = `{${base},"properties":{"post":8123456789012346000,"copy":8123456789012346000,"own":8123456789012350000}}`;
    expect(JSON.stringify(made(output))).toContain(
      '{"post":8123456789012345678,"copy":8123456789012345678,"own":8123456789012350000}',
    );
  });

  it('may write digits of its own, and no number that is out of range', () => {
    expect(JSON.stringify(made(`{${base},"properties":{"x":0.11111111111111111111}}`))).toContain(
      '{"x":0.11111111111111111111}',
    );
    expect(made(`{${base},"properties":{"x":7e888}}`)).toMatchObject({ ok: false, kind: 'output' });
    expect(made(`{${base},"properties":12345678901234567891}`)).toMatchObject({ ok: false, kind: 'output' });
  });

  it('with an emoji that was cut in two has U+FFFD for the half', () => {
    expect(made(String.raw`{${base},"properties":{"x":"a\ud83d"}}`)).toMatchObject({
      events: [{ properties: { x: 'a\ufffd' } }],
    });
  });
});
