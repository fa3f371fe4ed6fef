import { type Clock, type Mail, type Mailer, type MailSendResult, Unavailable } from '@tributary/core';
import { createTransport } from 'nodemailer';

export interface SmtpMailerOptions {
  readonly host: string;
  readonly port: number;
  /**
   * TLS from the first byte. Otherwise STARTTLS: required with credentials, else used if the server offers it.
   */
  readonly tls: boolean;
  readonly credentials?: { readonly username: string; readonly password: string } | undefined;
  /** PEM of the certificate authority; default: those of Node. */
  readonly ca?: string | undefined;
  /** The sender address of mails. */
  readonly from: string;
  /** A monotonic clock, ms. Default `performance.now`. */
  readonly elapsed?: Clock;
}

const SENDER = 'Tributary';
/** How long the server may take for each answer, ms. */
const ANSWER_MS = 20_000;
/** Pause after the server refused the credentials or the sender, ms. */
const REFUSED_PAUSE_MS = 60_000;

/** One plain address, without characters that have a meaning in a header or envelope. */
const ADDRESS = /^[^\s@<>()[\],;:\\"\p{Cc}]+@[^\s@<>()[\],;:\\"\p{Cc}]+$/u;

/**
 * Sends through an SMTP server, with one connection per mail: mails are rare, and an outage then leaves no state to clean
 * up. Opens even if the server does not answer.
 */
export function openSmtpMailer(options: SmtpMailerOptions): Mailer {
  const { from, elapsed = () => performance.now() } = options;
  const transport = transportOf(options);
  const domain = from.slice(from.lastIndexOf('@') + 1);
  const pending = new Set<Promise<unknown>>();
  let refused: { readonly until: number; readonly reason: string } | undefined;

  const attempt = async (mail: Mail): Promise<MailSendResult> => {
    try {
      await transport.sendMail({
        messageId: `<${mail.id}@${domain}>`,
        date: new Date(mail.at),
        from: { name: SENDER, address: from },
        to: { name: '', address: mail.to },
        envelope: { from, to: [mail.to] },
        subject: mail.subject,
        text: mail.text,
        // RFC 3834: prevents automatic replies.
        headers: { 'Auto-Submitted': 'auto-generated' },
        disableFileAccess: true,
        disableUrlAccess: true,
      });
      return { kind: 'sent' };
    } catch (error) {
      const failure = smtpFailureOf(error);
      if (failure.kind !== 'unavailable') return failure;
      const { reason, isConfiguration } = failure;
      if (isConfiguration) refused = { until: elapsed() + REFUSED_PAUSE_MS, reason };
      else if (await serverWorks()) return { kind: 'later', reason: `${reason}, although signing in works` };
      throw new Unavailable(reason); // without the cause, which repeats the server's reply
    }
  };
  /**
   * Whether connecting and signing in work: then the failure is specific to the mail, e.g. to its recipient's server, and
   * must not delay other mails.
   */
  const serverWorks = () =>
    transport.verify().then(
      () => true,
      () => false,
    );

  return {
    async send(mail) {
      if (!ADDRESS.test(mail.to))
        return { kind: 'refused', reason: 'the recipient is not a plain mail address' };
      if (refused !== undefined && elapsed() < refused.until)
        throw new Unavailable(`${refused.reason}; the next attempt is made after a pause`);
      const attempted = attempt(mail);
      pending.add(attempted);
      return attempted.finally(() => pending.delete(attempted));
    },
    async close() {
      await Promise.allSettled(pending);
      transport.close();
    },
  };
}

function transportOf({ host, port, tls, credentials, ca }: SmtpMailerOptions) {
  return createTransport({
    host,
    port,
    secure: tls,
    requireTLS: !tls && credentials !== undefined,
    ...(credentials && { auth: { user: credentials.username, pass: credentials.password } }),
    tls: { ...(ca !== undefined && { ca }) },
    connectionTimeout: ANSWER_MS,
    greetingTimeout: ANSWER_MS,
    socketTimeout: ANSWER_MS,
    dnsTimeout: ANSWER_MS,
    logger: false,
  });
}

/** The meaning of a failed attempt: a verdict on the mail, or a failure that is not specific to it. */
type SmtpFailure =
  | Exclude<MailSendResult, { kind: 'sent' }>
  | {
      readonly kind: 'unavailable';
      readonly reason: string;
      /** The server refuses our credentials or sender: frequent attempts are useless and may lock the account. */
      readonly isConfiguration: boolean;
    };

/** Replies that require authentication or encryption (RFC 4954, RFC 3207). */
const AUTHENTICATION_REPLIES = new Set([530, 534, 535, 538]);
/** The server is closing the connection. */
const CLOSING = 421;
/** The command with the sender address, which is the same for every mail. */
const SENDER_COMMAND = 'MAIL FROM';
/** The client's error codes for replies about the mail itself. */
const MAIL_ERRORS = new Set(['EENVELOPE', 'EMESSAGE']);

/**
 * Interprets an error of the SMTP client. The reason contains only the codes of a reply, as its text may repeat addresses or
 * credentials.
 */
export function smtpFailureOf(thrown: unknown): SmtpFailure {
  const { code, command, responseCode, response, message } = fieldsOf(thrown);
  const codes = [command, responseCode, enhancedCode(response)].filter(Boolean).join(' ');
  if (code === 'EAUTH' || AUTHENTICATION_REPLIES.has(responseCode))
    return {
      kind: 'unavailable',
      reason: `the mail server refuses the credentials (${codes})`,
      isConfiguration: true,
    };
  if (command === SENDER_COMMAND && responseCode >= 500)
    return {
      kind: 'unavailable',
      reason: `the mail server refuses the sender address (${codes})`,
      isConfiguration: true,
    };
  if (MAIL_ERRORS.has(code) && responseCode !== CLOSING) {
    if (responseCode >= 500) return { kind: 'refused', reason: codes };
    if (responseCode >= 400) return { kind: 'later', reason: codes };
    if (responseCode === 0) return { kind: 'refused', reason: `the mail cannot be sent (${code})` };
  }
  const why = response === '' ? message : codes;
  return {
    kind: 'unavailable',
    reason: `the mail server does not answer: ${code} ${why}`,
    isConfiguration: false,
  };
}

interface Fields {
  readonly code: string;
  /** The protocol command, e.g. `RCPT TO`. */
  readonly command: string;
  /** 0 without a reply of the server. */
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
