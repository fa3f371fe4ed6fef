import { createConnectors } from '@tributary/connectors';
import type { Logger, Mailer, Metrics } from '@tributary/core';
import type { Config } from '../../config/settings.ts';
import { confinementOf } from '../../process/confinement.ts';

/** The connectors of a process, all with the same way out. */
export function openConnectors(
  config: Config,
  tools: { readonly logger: Logger; readonly metrics: Metrics },
) {
  return createConnectors({
    egressAllow: config.egressAllow,
    dataFolder: config.dataFolder,
    confinement: confinementOf(config),
    timeoutMs: config.deliveryTimeout,
    clock: Date.now,
    logger: tools.logger,
    metrics: tools.metrics,
  });
}

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
