import type { Mailer } from '@tributary/core';
import type { Config } from '../../config/settings.ts';

/** The way to the mail server, which need not answer yet; undefined where none is named. */
export async function openMailer(config: Config): Promise<Mailer | undefined> {
  const { smtpUrl, smtpUsername: username, smtpPassword: password, smtpTlsCa: ca, mailFrom: from } = config;
  if (smtpUrl === undefined || from === undefined) return undefined;
  const { openSmtpMailer } = await import('../../../adapters/mailer/smtp/index.ts');
  return openSmtpMailer({
    ...smtpUrl,
    ...(username === undefined || password === undefined ? {} : { credentials: { username, password } }),
    ...(ca === undefined ? {} : { ca }),
    from,
  });
}
