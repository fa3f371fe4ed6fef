import { describe, expect, it } from 'vitest';
import { smtpFailureOf } from './index.ts';

const ADDRESS = 'somebody@example.com';

function reply(code: string, command: string, response: string) {
  const responseCode = Number(response.slice(0, 3));
  return Object.assign(new Error(`it failed: ${response}`), { code, command, response, responseCode });
}

describe('SMTP failure', () => {
  it.each([
    ['no such mailbox', reply('EENVELOPE', 'RCPT TO', `550 5.1.1 <${ADDRESS}> unknown`), 'RCPT TO 550 5.1.1'],
    [
      'too large, or unwanted',
      reply('EMESSAGE', 'DATA', '554-5.7.1 spam\n554 5.7.1 indeed'),
      'DATA 554 5.7.1',
    ],
  ])('permanent: %s', (_what, thrown, reason) => {
    expect(smtpFailureOf(thrown)).toEqual({ kind: 'refused', reason });
  });

  it.each([
    ['busy with others', reply('EENVELOPE', 'MAIL FROM', '451 4.3.0 busy'), 'MAIL FROM 451 4.3.0'],
    ['greylisted', reply('EENVELOPE', 'RCPT TO', '451 4.7.1 come back'), 'RCPT TO 451 4.7.1'],
    ['mailbox full', reply('EMESSAGE', 'DATA', `452 ${ADDRESS} is full`), 'DATA 452'],
  ])('to be tried later: %s', (_what, thrown, reason) => {
    expect(smtpFailureOf(thrown)).toEqual({ kind: 'later', reason });
  });

  it('permanent: a mail that the client cannot start to send', () => {
    const thrown = Object.assign(new Error(`Invalid recipient "${ADDRESS}"`), {
      code: 'EENVELOPE',
      command: 'API',
    });
    expect(smtpFailureOf(thrown)).toEqual({
      kind: 'refused',
      reason: 'the mail cannot be sent (EENVELOPE)',
    });
  });

  it.each([
    ['wrong password', reply('EAUTH', 'AUTH PLAIN', `535 5.7.8 ${ADDRESS}: no`), true],
    ['unencrypted', reply('EENVELOPE', 'MAIL FROM', '530 5.7.0 Must issue a STARTTLS command first'), true],
    ['a sender it does not take', reply('EENVELOPE', 'MAIL FROM', `553 5.7.1 ${ADDRESS} is not yours`), true],
    ['closing', reply('EENVELOPE', 'RCPT TO', '421 4.3.2 closing'), false],
    ['not open yet', reply('EPROTOCOL', 'CONN', `554 no service for ${ADDRESS}`), false],
  ])('nothing about the mail: %s', (_what, thrown, isConfiguration) => {
    const failure = smtpFailureOf(thrown);
    expect(failure).toMatchObject({ kind: 'unavailable', isConfiguration });
    expect(failure.reason).not.toContain(ADDRESS);
  });

  it('nothing about the mail: a connection error', () => {
    const thrown = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:25'), { code: 'ESOCKET' });
    expect(smtpFailureOf(thrown)).toEqual({
      kind: 'unavailable',
      reason: 'the mail server does not answer: ESOCKET connect ECONNREFUSED 127.0.0.1:25',
      isConfiguration: false,
    });
    expect(smtpFailureOf('odd')).toMatchObject({ kind: 'unavailable' });
  });
});
