import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { type CanonicalEvent, type JsonObject, NO_LOGGER, NO_METRICS } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { createConnectors } from '../registry.ts';
import { segmentEvent } from './connector.ts';
import type { ActionOutcome } from './messages.ts';
import { classifyUnit, worstOf } from './pack-run.ts';
import { sizeFaults } from './settings.ts';

const POSTED = { method: 'POST', url: 'https://api.example.com/', headers: [], body: '' };
const SENT = { events: [0], sent: POSTED };
const answered = (status: number, excerpt = '', retryAfter?: string) => ({
  ...SENT,
  answer: { status, excerpt, retryAfter, refusal: undefined },
});
const tokenRefused = () => ({
  ...SENT,
  isTokenRefused: true,
  answer: { status: 200, excerpt: '', retryAfter: undefined, refusal: { says: 'the token is expired' } },
});
type Requests = Parameters<typeof classifyUnit>[2];
/** The result of an event that some actions took. */
const resultOf = (
  units: readonly (Pick<ActionOutcome, 'error'> & { action: string; requests: Requests })[],
  secrets: readonly string[] = [],
) =>
  worstOf(
    units.map(({ action, requests, ...outcome }, subscription) => {
      const unit = { subscription, action, events: [0] };
      const { each, result } = classifyUnit(unit, { unit: subscription, ...outcome }, requests, secrets, 0);
      return each[0] ?? result;
    }),
  );

describe('the result of the actions', () => {
  it('is tried again where the pack waited no longer, although the call had time left', () => {
    const error = { name: 'TimeoutError', message: 'timed out' };
    const verdict = resultOf([{ action: 'track', error, requests: [SENT] }]);
    expect(verdict).toEqual({ outcome: 'retry', reason: 'timed out' });
  });

  it('for the rate asks for fewer requests; that of another action beside it uses a retry step', () => {
    const error = { name: 'HTTPError', message: 'no' };
    const busy = { action: 'track', error, requests: [answered(429, '', '4')] };
    const down = { action: 'identify', error, requests: [answered(500)] };
    expect(resultOf([busy])).toMatchObject({ outcome: 'retry', throttled: true, afterMs: 4_000 });
    const both = resultOf([busy, down]);
    expect(both).toMatchObject({ outcome: 'retry', status: 500 });
    expect(both).not.toHaveProperty('throttled');
  });

  it('was the answer 400 of the vendor, which was not asked: what the pack refuses is dead with its reason', () => {
    const error = { name: 'PayloadValidationError', status: 400, message: 'no email of key-77' };
    const refused = { action: 'track', requests: [], error };
    expect(resultOf([refused], ['key-77'])).toEqual({
      outcome: 'dead',
      reason: 'not sent: track: no email of *** (PayloadValidationError)',
      local: true,
    });
    const sent = {
      action: 'identify',
      requests: [answered(403, 'no')],
      error: { name: 'HTTPError', status: 403, message: '' },
    };
    // The word of the vendor goes before a refusal of ours, and counts for its health.
    expect(resultOf([refused, sent])).toEqual({
      outcome: 'dead',
      reason: 'identify answered 403',
      status: 403,
      response: 'no',
    });
  });

  it('was delivered where no action made a request', () => {
    expect(resultOf([])).toEqual({ outcome: 'unwanted', reason: 'not sent: no action takes it' });
    expect(resultOf([{ action: 'session', requests: [] }])).toEqual({
      outcome: 'unwanted',
      reason: 'not sent: session made no request of it',
    });
    const both = resultOf([
      { action: 'track', requests: [answered(200, 'a'), answered(202, 'b')] },
      { action: 'session', requests: [] },
    ]);
    expect(both).toEqual({ outcome: 'delivered', status: 202, response: 'b', recorded: true });
  });

  it('is what the pack reads in an answer of 2xx', () => {
    const error = { name: 'IntegrationError', status: 422, message: 'no such list' };
    const verdict = resultOf([{ action: 'add', error, requests: [answered(200, '{}')] }]);
    expect(verdict).toMatchObject({ outcome: 'dead', reason: 'add: no such list (IntegrationError)' });
    expect(verdict).not.toHaveProperty('local');
  });
});

it('an event of which nothing was sent but for an access token was delivered', () => {
  const requests = [{ ...answered(200, '{}'), isGrant: true } as const];
  expect(resultOf([{ action: 'add', requests }])).toMatchObject({ outcome: 'unwanted' });
});

describe('an action that ends well after a failed request', () => {
  it.each([
    ['the last word is a 500', [answered(200), answered(500)], 'retry'],
    ['the last word is a 404', [answered(404)], 'dead'],
    [
      'one of several writes was lost',
      [answered(503), { ...answered(200), sent: { ...POSTED, url: 'https://other' } }],
      'retry',
    ],
    ['the write was repeated', [answered(503), answered(200)], 'delivered'],
    ['the token was renewed after a 2xx that refused it', [tokenRefused(), answered(200)], 'delivered'],
    [
      'a look-up found nothing',
      [{ ...answered(404), sent: { ...POSTED, method: 'GET' } }, answered(200)],
      'delivered',
    ],
  ])('was delivered: %s', (_, requests, outcome) => {
    expect(resultOf([{ action: 'add', requests }])).toMatchObject({ outcome });
  });
});

describe('the event that the pack gets', () => {
  const event: CanonicalEvent = {
    message_id: 'm',
    type: 'page',
    name: 'Sale',
    category: 'Shop',
    user_id: 'u',
    properties: { shelf: 4 },
    integrations: { All: false, Amplitude: { session_id: 5 } },
    timestamp: '2026-01-02T03:04:00.000Z',
    received_at: '2026-01-02T03:04:05.000Z',
    environment: 'production',
    workspace_id: 'w1',
  };
  const call = {
    type: 'page',
    messageId: 'm',
    name: 'Sale',
    category: 'Shop',
    userId: 'u',
    properties: { shelf: 4 },
    integrations: { All: false, Amplitude: { session_id: 5 } },
    timestamp: '2026-01-02T03:04:00.000Z',
    receivedAt: '2026-01-02T03:04:05.000Z',
  };

  it('was without channel and original time, which stood in its context: it is the call that was sent', () => {
    const segment = {
      channel: 'web',
      timestamp: '2026-01-02T02:00:00Z',
      sentAt: '2026-01-02T02:00:05Z',
      userId: 'of no one',
      context: { segment: 'theirs' },
      batch: { sequence: 1 },
    };
    const tributary = { changed: [], context: { tributary: 'theirs too' } };
    expect(segmentEvent({ ...event, context: { ip: '::1', segment, tributary } })).toEqual({
      ...call,
      channel: 'web',
      originalTimestamp: '2026-01-02T02:00:00Z',
      sentAt: '2026-01-02T02:00:05Z',
      context: { ip: '::1', segment: 'theirs', tributary: 'theirs too' },
    });
  });

  it('is complete where the platform API took it', () => {
    expect(segmentEvent(event)).toEqual({ ...call, context: {} });
    for (const segment of ['text', null, ['list']])
      expect(segmentEvent({ ...event, context: { segment } })).toEqual({ ...call, context: {} });
  });
});

const nested = (levels: number): JsonObject => (levels === 1 ? {} : { a: nested(levels - 1) });
const faultsOf = (mapping: JsonObject) =>
  sizeFaults({
    actions: [
      { action: 'a', subscribe: 's' },
      { action: 'a', subscribe: 's', mapping },
    ],
  });

it('a mapping could be of any depth and size', () => {
  expect(faultsOf(nested(12))).toEqual([]);
  expect(faultsOf(nested(13))).toMatchObject([{ path: '/actions/1/mapping' }]);
  expect(faultsOf({ text: 'a'.repeat(16_000) })).toEqual([]);
  expect(faultsOf({ text: 'é'.repeat(8_200) })).toMatchObject([{ path: '/actions/1/mapping' }]);
  expect(sizeFaults({})).toEqual([]);
});

describe('the actions of a destination', () => {
  it('are unavailable while no process of the pack starts, and are read once one does', async () => {
    const [told] = await once(new Worker(new URL('./details-thread.fixture.ts', import.meta.url)), 'message');
    const { isUnavailable, actions, read } = told as Record<string, unknown>;
    expect(isUnavailable).toBe(true);
    expect(actions).toContain('trackEvent');
    expect(read).toEqual(actions);
  });

  it('are none of a type that is unknown, or has none', async () => {
    const options = { egressAllow: [], dataFolder: '/nonexistent', clock: Date.now } as const;
    const confinement = { uid: 0, wrapper: [] };
    const connectors = createConnectors({ ...options, logger: NO_LOGGER, metrics: NO_METRICS, confinement });
    await connectors.prepare('webhook');
    await connectors.prepare('none');
    await connectors.close();
  });
});
