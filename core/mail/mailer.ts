/** One mail, as plain text to one address. */
export interface Mail {
  /** A UUID. The mail that is sent again is the same mail: it has the same `Message-ID` and the same bytes. */
  readonly id: string;
  /** Epoch ms, of what it tells. */
  readonly at: number;
  /** One address, nothing around it. */
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/**
 * `sent`: the server has taken it and answers for it from now on. `refused`: it never will, e.g. as there is no such
 * mailbox. `later`: it does not take this mail now, though it may take others. A `reason` holds neither an address nor
 * anything of the mail.
 */
export type MailVerdict =
  | { readonly kind: 'sent' }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'later'; readonly reason: string };

/**
 * Hands mails to a mail server.
 *
 * Promises: what is in a mail stays where it was put. Whatever characters its fields hold, no further header comes of
 * them and no further recipient: what cannot be sent so is `refused`. No password goes over a connection that is not
 * encrypted.
 *
 * Errors: `Unavailable` when the server does not answer or does not take us (credentials, certificate, sender address):
 * that says nothing about the mail, and the server may have taken it; send it again. Where the server breaks off with
 * one mail though it answers otherwise, that is `later`, so that the mail holds up no other; it too may have been taken.
 *
 * An implementer must not: call a mail sent that the server only began to take, or put an address, a mail's text or a
 * password into an error, a reason or a log.
 */
export interface Mailer {
  send(mail: Mail): Promise<MailVerdict>;
  /** Waits for the mail under way. Idempotent. */
  close(): Promise<void>;
}
