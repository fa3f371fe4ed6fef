import { Webhook } from 'standardwebhooks';
import { expect, test } from 'vitest';
import { sampleDelivery } from '../delivery.fixture.ts';
import { composeMessage } from './connector.ts';
import { rotated } from './secrets.ts';
import { readSettings } from './settings.ts';

const secretOf = (byte: number) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`;
const [A, B, C] = [secretOf(1), secretOf(2), secretOf(3)];
const NOW = Date.parse('2026-03-01T12:00:00.000Z');
const HOUR = 3_600_000;
const url = 'https://hooks.example.com/';

const secretsIn = (settings: ReturnType<typeof rotated>) =>
  ((settings.previous_secrets ?? []) as { secret: string }[]).map(({ secret }) => secret);

test('a secret that is replaced signs on for a day, or as long as the settings say', () => {
  expect(rotated({ url, secret: A }, { url, secret: B }, NOW)).toEqual({
    url,
    secret: B,
    previous_secrets: [{ secret: A, until: '2026-03-02T12:00:00.000Z' }],
    rotation_until: '2026-03-02T12:00:00.000Z',
  });
  const longer = rotated({ url, secret: A }, { url, secret: B, rotation_hours: 72 }, NOW);
  expect(longer.rotation_until).toBe('2026-03-04T12:00:00.000Z');
});

test('only valid signs are kept: no expired ones, the present one, four at most', () => {
  const once = rotated({ secret: A }, { secret: B }, NOW);
  expect(secretsIn(rotated(once, { ...once, secret: C }, NOW + HOUR))).toEqual([B, A]);
  expect(secretsIn(rotated(once, { ...once, secret: C }, NOW + 25 * HOUR))).toEqual([B]);
  expect(rotated(once, once, NOW + 25 * HOUR)).toEqual({ secret: B });
  expect(secretsIn(rotated(once, { ...once, secret: A }, NOW + HOUR))).toEqual([B]);
  let settings = once;
  for (let byte = 4; byte < 12; byte++)
    settings = rotated(settings, { ...settings, secret: secretOf(byte) }, NOW + byte);
  expect(secretsIn(settings)).toEqual([10, 9, 8, 7].map(secretOf));
});

test('after a leak none signs beside the new one, at once', () => {
  const once = rotated({ secret: A }, { secret: B }, NOW);
  expect(rotated({ secret: A }, { secret: B, rotation_hours: 0 }, NOW)).toEqual({
    secret: B,
    rotation_hours: 0,
  });
  expect(rotated(once, { ...once, rotation_hours: 0 }, NOW)).toEqual({ secret: B, rotation_hours: 0 });
  expect(rotated(once, { secret: B }, NOW)).toEqual({ secret: B });
});

/** The headers and the body of a request that is made at `now`, signed with A's successor B. */
function signed(rotatedAt: number, now: number) {
  const settings = readSettings({ url, ...rotated({ secret: A }, { secret: B }, rotatedAt) });
  if (settings === undefined) throw new Error('not valid');
  const { headers, body } = composeMessage(settings, [sampleDelivery('d')], now);
  const pairs = headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1] ?? '']] : []));
  return { headers: Object.fromEntries(pairs) as Record<string, string>, body: String(body) };
}

test('retries were refused by a receiver that has the old secret still, or the new one already', () => {
  const { headers, body } = signed(Date.now(), Date.now());
  for (const secret of [A, B]) expect(new Webhook(secret).verify(body, headers)).toMatchObject({ id: 'd' });
  expect(() => new Webhook(C).verify(body, headers)).toThrow();
});

test('the old secret ceases to sign when its time is over, with no change of the settings', () => {
  const signaturesAt = (now: number) => signed(NOW, now).headers['webhook-signature']?.split(' ').length;
  expect([NOW + 23 * HOUR, NOW + 24 * HOUR].map(signaturesAt)).toEqual([2, 1]);
});
