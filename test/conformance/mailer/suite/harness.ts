import type { Mailer } from '@tributary/core';
import type { MailStep, TakenMail } from '../../../helpers/mail-server.ts';

/** A mailer and the server behind it, in the hand of the test. */
export interface MailerHarness {
  readonly mailer: Mailer;
  /** The mails that the server accepted. */
  readonly taken: readonly TakenMail[];
  /** Makes the server refuse at a step, with `<code> <text>`, or by `cut` of the connection, until told otherwise. */
  refuse(refusal: { readonly step: MailStep; readonly reply: string } | undefined): void;
  /** Takes the server away, and brings it back to where it was. */
  stopServer(): Promise<void>;
  startServer(): Promise<void>;
  close(): Promise<void>;
}
