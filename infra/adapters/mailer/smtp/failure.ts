import type { MailSendResult } from '@tributary/core';

/** What a failed attempt means: a verdict on the mail, or something between the server and us. */
export type SmtpFailure =
  | Exclude<MailSendResult, { kind: 'sent' }>
  | {
      readonly kind: 'unavailable';
      readonly reason: string;
      /** It is our credentials or our sender that the server does not take: trying often changes nothing and may lock us out. */
      readonly ours: boolean;
    };

/** Replies that speak of us instead of the mail: sign in, encrypt, and variants of both (RFC 4954, RFC 3207). */
const ABOUT_SIGNING_IN = new Set([530, 534, 535, 538]);
/** The server closes down. */
const CLOSING = 421;
/** With this the client says who sends: configuration, the same for every mail. */
const SENDER = 'MAIL FROM';
/** Where the client was when the server spoke of the mail. */
const ABOUT_THE_MAIL = new Set(['EENVELOPE', 'EMESSAGE']);

/**
 * Reads what the SMTP client threw. What servers write beside their codes may repeat addresses, or what was said to
 * sign in: of a reply only its codes are told.
 */
export function smtpFailureOf(thrown: unknown): SmtpFailure {
  const { code, command, responseCode, response, message } = fieldsOf(thrown);
  const said = [command, responseCode, enhancedCode(response)].filter(Boolean).join(' ');
  if (code === 'EAUTH' || ABOUT_SIGNING_IN.has(responseCode))
    return { kind: 'unavailable', reason: `the mail server does not let us in (${said})`, ours: true };
  if (command === SENDER && responseCode >= 500)
    return {
      kind: 'unavailable',
      reason: `the mail server does not take our sender address (${said})`,
      ours: true,
    };
  if (ABOUT_THE_MAIL.has(code) && responseCode !== CLOSING) {
    if (responseCode >= 500) return { kind: 'refused', reason: said };
    if (responseCode >= 400) return { kind: 'later', reason: said };
    if (responseCode === 0) return { kind: 'refused', reason: `the mail cannot be sent (${code})` };
  }
  const why = response === '' ? message : said;
  return { kind: 'unavailable', reason: `the mail server does not answer: ${code} ${why}`, ours: false };
}

interface Fields {
  readonly code: string;
  /** Of the protocol, e.g. `RCPT TO`. */
  readonly command: string;
  /** 0 when the server had not replied. */
  readonly responseCode: number;
  readonly response: string;
  readonly message: string;
}

function fieldsOf(thrown: unknown): Fields {
  const error = (typeof thrown === 'object' && thrown !== null ? thrown : {}) as Record<string, unknown>;
  const textOf = (value: unknown) => (typeof value === 'string' ? value : '');
  return {
    code: textOf(error.code),
    command: /^[A-Z ]{1,20}$/.test(textOf(error.command)) ? textOf(error.command) : '',
    responseCode: typeof error.responseCode === 'number' ? error.responseCode : 0,
    response: textOf(error.response),
    message: textOf(error.message),
  };
}

/** RFC 3463, e.g. `5.1.1`. */
function enhancedCode(response: string): string {
  return /^\d{3}[ -]([245]\.\d{1,3}\.\d{1,3})\b/.exec(response)?.[1] ?? '';
}
