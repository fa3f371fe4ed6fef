import type { Mailer } from '@tributary/core';
import type { MailStep, TakenMail } from '../../../helpers/mail-server.ts';

/** A mailer, with a server that the test controls. */
export interface MailerHarness {
  readonly mailer: Mailer;
  /** The mails that the server accepted. */
  readonly taken: readonly TakenMail[];
  /**
   * Makes the server refuse at a step, with `<code> <text>`, or by `cut` of the connection, until the next
   * call.
   */
  refuse(refusal: { readonly step: MailStep; readonly reply: string } | undefined): void;
  /** Stops the server, and restarts it at the same address. */
  stopServer(): Promise<void>;
  startServer(): Promise<void>;
  close(): Promise<void>;
}
