import { describe, expect, it } from 'vitest';
import { readConfig } from './config.ts';

const FROM = { TRIBUTARY_MAIL_FROM: 'tributary@example.com' };

describe('the way to a mail server', () => {
  it.each([
    ['smtp://mail.example.com', { host: 'mail.example.com', port: 587, tls: false }],
    ['smtps://mail.example.com', { host: 'mail.example.com', port: 465, tls: true }],
    ['smtp://127.0.0.1:2525/', { host: '127.0.0.1', port: 2525, tls: false }],
    ['smtps://[::1]:1', { host: '::1', port: 1, tls: true }],
  ])('is read from %s', (url, address) => {
    expect(readConfig({ ...FROM, TRIBUTARY_SMTP_URL: url }).smtpUrl).toEqual(address);
  });

  it('need not be there', () => {
    expect(readConfig({})).toMatchObject({ smtpUrl: undefined, mailFrom: undefined });
  });

  it.each([
    ['http://mail.example.com', 'must be an smtp:// or smtps:// URL'],
    ['mail.example.com:25', 'must be an smtp:// or smtps:// URL'],
    ['smtp://', 'must be an smtp:// or smtps:// URL'],
    ['smtp://mail.example.com/x', 'must be a host and a port, nothing more'],
    ['smtp://mail.example.com?tls=0', 'must be a host and a port, nothing more'],
  ])('is refused: %s', (url, fault) => {
    expect(() => readConfig({ ...FROM, TRIBUTARY_SMTP_URL: url })).toThrow(`TRIBUTARY_SMTP_URL ${fault}`);
  });

  it('holds no password, and the refusal does not repeat one', () => {
    const env = { ...FROM, TRIBUTARY_SMTP_URL: 'smtp://someone:correct-horse@mail.example.com' };
    expect(() => readConfig(env)).toThrow('use TRIBUTARY_SMTP_USERNAME and TRIBUTARY_SMTP_PASSWORD');
    expect(() => readConfig(env)).not.toThrow('horse');
  });

  it.each(['nobody', 'Name <a@example.com>', 'a@example.com, b@example.com', 'a@example.com\r\nBcc: b@c'])(
    'has one plain sender: not %j',
    (from) => {
      const env = { TRIBUTARY_SMTP_URL: 'smtp://m', TRIBUTARY_MAIL_FROM: from };
      expect(() => readConfig(env)).toThrow('TRIBUTARY_MAIL_FROM must be an e-mail address');
    },
  );

  it.each([
    ['TRIBUTARY_SMTP_URL needs TRIBUTARY_MAIL_FROM', { TRIBUTARY_SMTP_URL: 'smtp://m' }],
    ['TRIBUTARY_MAIL_FROM needs TRIBUTARY_SMTP_URL', FROM],
    ['TRIBUTARY_SMTP_USERNAME needs TRIBUTARY_SMTP_URL', { TRIBUTARY_SMTP_USERNAME: 'u' }],
    [
      'TRIBUTARY_SMTP_PASSWORD needs TRIBUTARY_SMTP_USERNAME',
      { ...FROM, TRIBUTARY_SMTP_URL: 'smtp://m', TRIBUTARY_SMTP_PASSWORD: 'p' },
    ],
  ])('is whole or not there: %s', (fault, env) => {
    expect(() => readConfig(env)).toThrow(fault);
  });
});
