import { expect, test } from 'vitest';
import { sampleDelivery } from '../delivery.fixture.ts';
import { composeMessage } from './connector.ts';
import { readSettings } from './settings.ts';

const TRACEPARENT = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;

/** The trace contexts in a request, with these headers in the settings. */
function sent(traceparent: string | undefined, headers: Readonly<Record<string, string>> = {}) {
  const secret = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
  const settings = readSettings({ url: 'https://hooks.example.com/', secret, headers });
  if (settings === undefined) throw new Error('not valid');
  const message = composeMessage(settings, [sampleDelivery('d')], 0, traceparent);
  return message.headers.filter((_, at) => message.headers[at - 1] === 'traceparent');
}

test('a request has the trace context of a sampled delivery, and none otherwise', () => {
  expect(sent(TRACEPARENT)).toEqual([TRACEPARENT]);
  expect(sent(undefined)).toEqual([]);
});

test('a trace context that the settings set is sent alone', () => {
  expect(sent(TRACEPARENT, { Traceparent: 'own' })).toEqual(['own']);
});
