import { X509Certificate } from 'node:crypto';
import { normalizeEmail } from '@tributary/core';
import { optional, type Parsed, pemFile, secret, setting, text } from './setting.ts';

/** Where a mail server is. */
export interface SmtpAddress {
  readonly host: string;
  readonly port: number;
  /** Encrypted from the first byte. */
  readonly tls: boolean;
}

/** The variables that say how mails leave; without them mails wait, for three quarters of the log's retention. */
export const MAIL_SETTINGS = {
  smtpUrl: setting(
    'TRIBUTARY_SMTP_URL',
    '',
    optional(smtpUrl()),
    'Mail server, as smtp://host[:587] (encrypted by STARTTLS, with TRIBUTARY_SMTP_USERNAME always) or smtps://host[:465]; without it mails wait, and are given up at three quarters of TRIBUTARY_RETENTION.',
  ),
  smtpUsername: setting('TRIBUTARY_SMTP_USERNAME', '', optional(text()), 'User name for the mail server.'),
  smtpPassword: secret('TRIBUTARY_SMTP_PASSWORD', optional(text()), 'The password of that user.'),
  smtpTlsCa: setting(
    'TRIBUTARY_SMTP_TLS_CA_FILE',
    '',
    optional(pemFile((pem) => new X509Certificate(pem))),
    'PEM file of the authority that signed the certificate of the mail server; default: those Node knows.',
  ),
  mailFrom: setting(
    'TRIBUTARY_MAIL_FROM',
    '',
    optional(address()),
    'The address mails come from, e.g. tributary@example.com.',
  ),
} as const;

const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'smtp:': 587, 'smtps:': 465 };

/** Never repeats the value: it may hold a password. */
function smtpUrl(): (value: string) => Parsed<SmtpAddress> {
  return (value) => {
    const url = URL.canParse(value) ? new URL(value) : undefined;
    const defaultPort = DEFAULT_PORTS[url?.protocol ?? ''];
    if (url === undefined || defaultPort === undefined || url.hostname === '')
      return { ok: false, message: 'must be an smtp:// or smtps:// URL' };
    if (url.username !== '' || url.password !== '')
      return {
        ok: false,
        message: 'must not hold credentials: use TRIBUTARY_SMTP_USERNAME and TRIBUTARY_SMTP_PASSWORD',
      };
    if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '')
      return { ok: false, message: 'must be a host and a port, nothing more' };
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
    return {
      ok: true,
      value: { host, port: Number(url.port) || defaultPort, tls: url.protocol === 'smtps:' },
    };
  };
}

function address(): (value: string) => Parsed<string> {
  return (value) =>
    normalizeEmail(value) === undefined || /[<>()[\],;:\\"]/.test(value)
      ? { ok: false, message: 'must be an e-mail address, nothing around it' }
      : { ok: true, value };
}
