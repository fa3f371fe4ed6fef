import { type Mail, type Mailer, messageOf, newId, Unavailable } from '@tributary/core';
import { openSmtpMailer, type SmtpMailerOptions } from '@tributary/infra';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type MailServer, type MailServerOptions, startMailServer } from '../../../helpers/mail-server.ts';
import type { MailerHarness } from '../suite/harness.ts';
import { mailerConformance } from '../suite/mailer.conformance.ts';

const USER = { username: 'tributary', password: 'correct-horse' };
const FROM = 'tributary@example.com';

mailerConformance('SMTP', () => openHarness({}));
mailerConformance('SMTP with TLS and a user', () =>
  openHarness({ secure: true, user: USER }, { credentials: USER }),
);

function mailerTo(server: MailServer, options: Partial<SmtpMailerOptions>): Mailer {
  return openSmtpMailer({ host: '127.0.0.1', port: server.port, tls: false, from: FROM, ...options });
}

async function openHarness(
  options: MailServerOptions,
  mailerOptions: Partial<SmtpMailerOptions> = {},
): Promise<MailerHarness> {
  const server = await startMailServer(options);
  const mailer = mailerTo(server, { tls: options.secure ?? false, ca: server.ca, ...mailerOptions });
  return {
    mailer,
    taken: server.taken,
    refuse: server.refuse,
    stopServer: server.stop,
    startServer: server.start,
    async close() {
      await mailer.close();
      await server.stop();
    },
  };
}

function mail(): Mail {
  return { id: newId(), at: 0, to: 'ops@example.com', subject: 's', text: 't' };
}

async function open(
  options: MailServerOptions,
  { trusting = true, ...mailerOptions }: Partial<SmtpMailerOptions> & { readonly trusting?: boolean } = {},
) {
  const server = await startMailServer(options);
  const mailer = mailerTo(server, {
    tls: options.secure ?? false,
    ...(trusting && { ca: server.ca }),
    ...mailerOptions,
  });
  onTestFinished(async () => {
    await mailer.close();
    await server.stop();
  });
  return { server, mailer };
}

describe('the connection to an SMTP server', () => {
  it.each([
    ['TLS from the first byte', { secure: true, user: USER }],
    ['STARTTLS', { user: USER }],
  ])('is encrypted and signed in: %s', async (_way, options) => {
    const { server, mailer } = await open(options, { credentials: USER });
    expect(await mailer.send(mail())).toEqual({ kind: 'sent' });
    expect(server.taken).toMatchObject([{ encrypted: true, user: USER.username, from: FROM }]);
  });

  it('is encrypted if the server offers it, also without a user, and otherwise unencrypted', async () => {
    const offering = await open({});
    await offering.mailer.send(mail());
    expect(offering.server.taken).toMatchObject([{ encrypted: true, user: undefined }]);
    const plain = await open({ plain: true });
    await plain.mailer.send(mail());
    expect(plain.server.taken).toMatchObject([{ encrypted: false }]);
  });

  it('never carries a password unencrypted, with any offer of the server', async () => {
    const { server, mailer } = await open({ plain: true, user: USER }, { credentials: USER });
    await expect(mailer.send(mail())).rejects.toBeInstanceOf(Unavailable);
    expect(server.tried).toEqual({ signIns: 0, mails: 0 });
  });

  it.each([
    ['TLS', true],
    ['STARTTLS', false],
  ])('ends at an untrusted certificate: %s', async (_way, secure) => {
    const { server, mailer } = await open({ secure, user: USER }, { credentials: USER, trusting: false });
    const thrown = await mailer.send(mail()).catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(Unavailable);
    expect(messageOf(thrown)).toMatch(/self-signed certificate/);
    expect(server.tried).toEqual({ signIns: 0, mails: 0 });
  });

  it('retries a refused password once a minute, so that no account is locked, without logging it', async () => {
    const wrong = { ...USER, password: 'battery-staple' };
    let now = 0;
    const { server, mailer } = await open({ user: USER }, { credentials: wrong, elapsed: () => now });
    const messages: string[] = [];
    for (const time of [0, 1_000, 59_000, 61_000]) {
      now = time;
      messages.push(await mailer.send(mail()).then(String, messageOf));
    }
    expect(server.tried.signIns).toBe(2);
    expect(messages[0]).toContain('refuses the credentials (AUTH PLAIN 535 5.7.8)');
    expect(messages.join()).not.toMatch(/staple|tributary/);
    const wanting = await open({ user: USER });
    await expect(wanting.mailer.send(mail())).rejects.toThrow('refuses the credentials');
  });

  it('retries a refused sender once a minute, reports it each time, and loses no mail', async () => {
    let now = 0;
    const { server, mailer } = await open({}, { elapsed: () => now });
    server.refuse({ step: 'mail', reply: '550 5.7.1 not yours' });
    for (const time of [0, 1_000, 59_000, 61_000]) {
      now = time;
      const thrown = await mailer.send(mail()).catch((error: unknown) => error);
      expect(thrown).toBeInstanceOf(Unavailable);
      expect(messageOf(thrown)).toContain('refuses the sender address (MAIL FROM 550 5.7.1)');
    }
    expect(server.tried.mails).toBe(2);
    server.refuse(undefined);
    now += 60_000;
    expect(await mailer.send(mail())).toEqual({ kind: 'sent' });
  });
});
