import { type Mail, messageOf, newId, Unavailable } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { MailerHarness } from './harness.ts';

const TO = 'ops@example.com';

function mail(fields: Partial<Mail> = {}): Mail {
  return {
    id: newId(),
    at: Date.parse('2026-01-01T10:00:00Z'),
    to: TO,
    subject: 'Profiles deleted',
    text: 'Three.\n',
    ...fields,
  };
}

/** The contract of the `Mailer` port. */
export function mailerConformance(name: string, openHarness: () => Promise<MailerHarness>): void {
  describe(`mailer conformance: ${name}`, () => {
    async function open(): Promise<MailerHarness> {
      const harness = await openHarness();
      onTestFinished(() => harness.close());
      return harness;
    }

    it('sends a mail unchanged to the one address', async () => {
      const { mailer, taken } = await open();
      const sent = mail({ subject: 'Gelöscht: 3 \u2713', text: 'Zeile eins\n.\nZeile drei, käuflich\n' });
      expect(await mailer.send(sent)).toEqual({ kind: 'sent' });
      expect(taken).toHaveLength(1);
      expect(taken[0]).toMatchObject({
        to: [TO],
        headers: { to: [TO], 'auto-submitted': ['auto-generated'] },
      });
      expect(decoded(taken[0]?.headers.subject?.[0] ?? '')).toBe(sent.subject);
      expect(taken[0]?.headers.date).toEqual(['Thu, 01 Jan 2026 10:00:00 +0000']);
    });

    it('gives the same mail the same Message-ID, and different mails different ones', async () => {
      const { mailer, taken } = await open();
      const first = mail();
      for (const each of [first, first, mail()]) await mailer.send(each);
      const ids = taken.map(({ headers }) => headers['message-id']?.[0]);
      expect(ids[0]).toContain(first.id);
      expect(ids[1]).toBe(ids[0]);
      expect(ids[2]).not.toBe(ids[0]);
      expect(taken[1]).toEqual(taken[0]);
    });

    it.each([
      ['subject', { subject: 'x\r\nBcc: evil@example.org\r\n\r\nbody' }],
      ['subject, a bare line feed', { subject: 'x\nBcc: evil@example.org' }],
      ['subject, a bare carriage return', { subject: 'x\rBcc: evil@example.org' }],
      ['text', { text: 'x\r\n.\r\nMAIL FROM:<evil@example.org>\r\n' }],
      ['id', { id: 'x>\r\nBcc: evil@example.org' }],
    ])('keeps the content of a mail out of its headers and recipients: %s', async (_field, fields) => {
      const { mailer, taken } = await open();
      await mailer.send(mail(fields));
      expect(taken).toHaveLength(1);
      expect(taken[0]?.to).toEqual([TO]);
      expect(taken[0]?.headers.bcc).toBeUndefined();
      expect(Object.keys(taken[0]?.headers ?? {}).sort()).toEqual(HEADERS);
    });

    it.each([
      'a@example.com, evil@example.org',
      'a@example.com evil@example.org',
      'Name <evil@example.org>',
      'a@example.com>\r\nRCPT TO:<evil@example.org',
      '"a b"@example.com',
      'group: a@example.com;',
      'nobody',
      '',
    ])('refuses an address that is not a single plain address: %s', async (to) => {
      const { mailer, taken } = await open();
      expect(await mailer.send(mail({ to }))).toMatchObject({ kind: 'refused' });
      expect(taken).toEqual([]);
    });

    it.each([
      ['recipient', '550 5.1.1 <ops@example.com> no such user'],
      ['data', '554 5.6.0 ops@example.com does not want this'],
    ] as const)('is refused permanently, without the text of the server: at %s', async (step, reply) => {
      const { mailer, refuse, taken } = await open();
      refuse({ step, reply });
      const verdict = await mailer.send(mail());
      expect(verdict).toMatchObject({ kind: 'refused', reason: expect.stringContaining(reply.slice(0, 9)) });
      expect(JSON.stringify(verdict)).not.toContain('ops@');
      refuse(undefined);
      expect(await mailer.send(mail())).toEqual({ kind: 'sent' });
      expect(taken).toHaveLength(1);
    });

    it.each([
      ['mail', '451 4.3.0 busy'],
      ['recipient', '450 4.2.1 ops@example.com greylisted'],
      ['data', '452 4.3.1 no room'],
    ] as const)('is to be tried later: at %s', async (step, reply) => {
      const { mailer, refuse } = await open();
      refuse({ step, reply });
      const verdict = await mailer.send(mail());
      expect(verdict).toMatchObject({ kind: 'later', reason: expect.stringContaining(reply.slice(0, 9)) });
      expect(JSON.stringify(verdict)).not.toContain('ops@');
    });

    it('is unavailable, not refused, while the server refuses the sender, without the text of the server', async () => {
      const { mailer, refuse, taken } = await open();
      refuse({ step: 'mail', reply: '553 5.7.1 <ops@example.com> sender refused' });
      const thrown = await mailer.send(mail()).catch((error: unknown) => error);
      expect(thrown).toBeInstanceOf(Unavailable);
      expect(messageOf(thrown)).toMatch(/sender address \(MAIL FROM 553 5\.7\.1\)/);
      expect(messageOf(thrown)).not.toContain('ops@');
      expect(taken).toEqual([]);
    });

    it.each(['recipient', 'data'] as const)(
      'is retried later, without delaying other mails, if the server disconnects at %s',
      async (step) => {
        const { mailer, refuse, taken } = await open();
        refuse({ step, reply: '421 4.3.2 ops@example.com closing' });
        const cut = mail();
        const verdict = await mailer.send(cut);
        expect(verdict).toMatchObject({ kind: 'later', reason: expect.stringContaining('421 4.3.2') });
        expect(JSON.stringify(verdict)).not.toContain('ops@');
        refuse({ step, reply: 'cut' });
        expect(await mailer.send(cut)).toMatchObject({ kind: 'later' });
        refuse(undefined);
        for (const each of [mail(), cut]) expect(await mailer.send(each)).toEqual({ kind: 'sent' });
        expect(taken.at(-1)?.headers['message-id']?.[0]).toContain(cut.id);
      },
    );

    it('is unavailable while the server is down or closes connections, and sends once it is back', async () => {
      const { mailer, refuse, taken, stopServer, startServer } = await open();
      refuse({ step: 'connect', reply: '554 no service here' });
      await expect(mailer.send(mail())).rejects.toBeInstanceOf(Unavailable);
      refuse(undefined);
      await stopServer();
      const thrown = await mailer.send(mail()).catch((error: unknown) => error);
      expect(thrown).toBeInstanceOf(Unavailable);
      expect(messageOf(thrown)).not.toContain(TO);
      await startServer();
      expect(await mailer.send(mail())).toEqual({ kind: 'sent' });
      expect(taken).toHaveLength(1);
    });
  });
}

const HEADERS = [
  ...'auto-submitted content-transfer-encoding content-type date from message-id mime-version'.split(' '),
  ...'subject to'.split(' '),
];

/** The words of a header, decoded from quoted-printable or base64 (RFC 2047). */
function decoded(header: string): string {
  return header
    .replace(/\?=\s+=\?/g, '?==?')
    .replace(/=\?utf-8\?([bq])\?([^?]*)\?=/gi, (_whole, form: string, text: string) =>
      form.toLowerCase() === 'b'
        ? Buffer.from(text, 'base64').toString('utf8')
        : decodeURIComponent(text.replaceAll('_', ' ').replace(/%/g, '%25').replace(/=/g, '%')),
    );
}
