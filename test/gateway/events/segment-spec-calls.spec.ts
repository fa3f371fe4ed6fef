import { readFileSync } from 'node:fs';
import type { CanonicalEvent } from '@tributary/core';
import { describe, expect, it, vi } from 'vitest';
import { suiteGateway } from '../suite-gateway.ts';

type Fields = Readonly<Record<string, unknown>>;

const CALLS = readFileSync(new URL('../../data/segment-calls/calls.ndjson', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Fields & { readonly type: string; readonly event?: string });

const test = await suiteGateway();
const headers = { authorization: `Bearer ${await (await test.openWorkspace()).writeKey()}` };

/** The events that the gateway appends to the log for a request. */
async function eventsOf(url: string, payload: object): Promise<readonly CanonicalEvent[]> {
  const append = vi.spyOn(test.dependencies.log, 'append');
  const answer = await test.app.inject({ method: 'POST', url, headers, payload });
  const entries = append.mock.calls.flatMap(([, given]) => given);
  append.mockRestore();
  expect([answer.statusCode, answer.json()]).toEqual([200, { success: true }]);
  return entries.map(({ value }) => JSON.parse(String(value)) as CanonicalEvent);
}

describe('the calls that the Segment spec shows', () => {
  it.each(CALLS.map((call) => [call.event ?? call.type, call] as const))(
    '%s keeps all its fields',
    async (_, call) => {
      const [event] = await eventsOf(`/v1/${call.type}`, call);
      expect(callIn(event, call)).toEqual(withTraitsInOnePlace(call));
    },
  );

  it('are taken all in one batch', async () => {
    const events = await eventsOf('/v1/batch', { batch: CALLS });
    expect(events.map((event, at) => callIn(event, CALLS[at] ?? {}))).toEqual(
      CALLS.map(withTraitsInOnePlace),
    );
  });
});

/** An identify has the traits of its context in `traits`. */
function withTraitsInOnePlace(call: Fields): Fields {
  const { traits: copied, ...context } = Object(call.context) as Fields;
  if ((call.type !== 'identify' && call.type !== 'alias') || copied === undefined) return call;
  return { ...call, traits: { ...Object(copied), ...Object(call.traits) }, context };
}

/** Rebuilds the call from the event alone; `call` gives the ids that it carried itself. */
function callIn(event: CanonicalEvent | undefined, call: Fields): Fields {
  if (event === undefined) throw new Error('there is no event');
  const { segment = {}, ...context } = (event.context ?? {}) as Readonly<Record<string, Fields>>;
  const { timestamp = event.timestamp, context: theirs, ...rest } = segment;
  const whole = { ...context, ...(theirs as object) };
  return Object.fromEntries(
    Object.entries({
      type: event.type,
      messageId: call.messageId === undefined ? undefined : event.message_id,
      [call.user_id === undefined ? 'userId' : 'user_id']: event.user_id,
      anonymousId: event.anonymous_id,
      event: event.event,
      name: event.name,
      category: event.category,
      groupId: event.group_id,
      previousId: event.previous_id,
      properties: event.properties,
      traits: event.traits,
      timestamp,
      integrations: event.integrations,
      context: Object.keys(whole).length === 0 ? undefined : whole,
      ...rest,
    }).filter(([, value]) => value !== undefined),
  );
}
