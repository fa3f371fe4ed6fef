import { expect, it } from 'vitest';
import { destinationMail } from './mail.ts';
import type { DestinationNotice } from './notices.ts';

const notice: DestinationNotice = {
  kind: 'destination',
  id: '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70',
  at: '2026-01-01T10:02:00.000Z',
  organization_id: 'o',
  workspace: { id: 'w', name: 'Shop' },
  destination: { id: 'd', name: 'CRM', type: 'webhook' },
  turn: {
    state: 'bad',
    because: 'failing',
    since: '2026-01-01T10:00:00.000Z',
    delivered_per_second: 0,
    failed_per_second: 2.5,
    oldest_waiting_ms: 12_400,
    last_errors: [{ at: '2026-01-01T10:01:59.000Z', reason: 'answered 503', status: 503 }],
  },
};

it('the mail about a failing destination has its name, reason, time and last errors', () => {
  const { id, at, to, subject, text } = destinationMail(notice, 'ops@example.com');
  expect({ id, at, to, subject }).toEqual({
    id: notice.id,
    at: Date.parse(notice.at),
    to: 'ops@example.com',
    subject: 'Destination unhealthy: CRM',
  });
  for (const part of [
    'Shop (w)',
    'CRM (webhook, d)',
    notice.turn.since,
    'most requests fail',
    '2.5 a second',
  ])
    expect(text).toContain(part);
  expect(text).toContain('Oldest waiting: 12 s');
  expect(text).toContain('2026-01-01T10:01:59.000Z  answered 503');
});

it('the mail about a recovered destination states the recovery', () => {
  const turn = {
    ...notice.turn,
    state: 'well',
    because: null,
    oldest_waiting_ms: null,
    last_errors: [],
  } as const;
  const { subject, text } = destinationMail({ ...notice, turn }, 'ops@example.com');
  expect(subject).toBe('Destination healthy again: CRM');
  expect(text).not.toMatch(/Why|Oldest|errors/);
});

it('the mail has no link and no extra line from names given by users', () => {
  const name = `CRM\r\nBcc: all@example.com\u2028https://evil.example/${'x'.repeat(500)}`;
  const destination = { ...notice.destination, name };
  const last_errors = [{ at: notice.at, reason: 'see http://evil.example\nnow' }];
  const { subject, text } = destinationMail(
    { ...notice, destination, turn: { ...notice.turn, last_errors } },
    'a@b.c',
  );
  expect(subject).not.toMatch(/[\r\n\u2028]/);
  expect(subject.length).toBeLessThan(200);
  expect(text).not.toContain('://');
  expect(text).not.toMatch(/^Bcc|^now/m);
});
