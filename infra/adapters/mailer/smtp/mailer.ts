import { type Clock, type Mail, type Mailer, type MailSendResult, Unavailable } from '@tributary/core';
import { createTransport } from 'nodemailer';
import { smtpFailureOf } from './failure.ts';

export interface SmtpMailerOptions {
  readonly host: string;
  readonly port: number;
  /**
   * Encrypted from the first byte. Else by STARTTLS: with credentials always, without them where the server offers it.
   */
  readonly tls: boolean;
  readonly credentials?: { readonly username: string; readonly password: string };
  /** PEM of the authority that signed the server's certificate; default: those Node knows. */
  readonly ca?: string;
  /** The address mails come from. */
  readonly from: string;
  /** Ms that never go back. Default `performance.now`. */
  readonly elapsed?: Clock;
  /** How long the server may take to answer anything, ms. Default 20,000. */
  readonly answerMs?: number;
  /** After it did not take the credentials or the sender, how long it is left alone, ms. Default one minute. */
  readonly refusedEveryMs?: number;
}

const SENDER = 'Tributary';
const ANSWER_MS = 20_000;
const REFUSED_EVERY_MS = 60_000;

/** One plain address: nothing that a header or the envelope would read as anything else. */
const ADDRESS = /^[^\s@<>()[\],;:\\"\p{Cc}]+@[^\s@<>()[\],;:\\"\p{Cc}]+$/u;

/**
 * Sends through an SMTP server, a connection a mail: mails are rare, and a server away for a while leaves nothing to
 * clean up. The server need not answer yet.
 */
export function openSmtpMailer(options: SmtpMailerOptions): Mailer {
  const { from, elapsed = () => performance.now(), refusedEveryMs = REFUSED_EVERY_MS } = options;
  const transport = transportOf(options);
  const domain = from.slice(from.lastIndexOf('@') + 1);
  const underWay = new Set<Promise<unknown>>();
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
        // RFC 3834: nobody's absence note answers it.
        headers: { 'Auto-Submitted': 'auto-generated' },
        disableFileAccess: true,
        disableUrlAccess: true,
      });
      return { kind: 'sent' };
    } catch (error) {
      const failure = smtpFailureOf(error);
      if (failure.kind !== 'unavailable') return failure;
      const { reason, ours } = failure;
      if (ours) refused = { until: elapsed() + refusedEveryMs, reason };
      else if (await takesOthers()) return { kind: 'later', reason: `${reason}, though it lets us in` };
      throw new Unavailable(reason); // without its cause, which repeats what the server wrote
    }
  };
  /**
   * Whether the server greets us and lets us in: then what failed has to do with the mail, e.g. with what lies between
   * the server and its recipient, and must hold up no other.
   */
  const takesOthers = () =>
    transport.verify().then(
      () => true,
      () => false,
    );

  return {
    async send(mail) {
      if (!ADDRESS.test(mail.to)) return { kind: 'refused', reason: 'no address that mail can be sent to' };
      if (refused !== undefined && elapsed() < refused.until)
        throw new Unavailable(`${refused.reason}; it is asked again after a while`);
      const attempted = attempt(mail);
      underWay.add(attempted);
      return attempted.finally(() => underWay.delete(attempted));
    },
    async close() {
      await Promise.allSettled(underWay);
      transport.close();
    },
  };
}

function transportOf({ host, port, tls, credentials, ca, answerMs = ANSWER_MS }: SmtpMailerOptions) {
  return createTransport({
    host,
    port,
    secure: tls,
    requireTLS: !tls && credentials !== undefined,
    ...(credentials && { auth: { user: credentials.username, pass: credentials.password } }),
    tls: { ...(ca !== undefined && { ca }) },
    connectionTimeout: answerMs,
    greetingTimeout: answerMs,
    socketTimeout: answerMs,
    dnsTimeout: answerMs,
    logger: false,
  });
}
