import type { Environment } from '../command.ts';
import { readConfig } from '../config/config.ts';
import { openDevIssuer } from '../issuer/dev-issuer.ts';
import { createLogger } from '../observability/logger.ts';
import { makeFolderPrivate } from '../process/private-folder.ts';
import { parseOptions, UsageError } from '../usage-error.ts';

/** `tributary token --email a@b.c`: prints an ID token alone. Needs no server, only its data folder. */
export async function printToken(args: readonly string[], environment: Environment): Promise<number> {
  const { email } = parseOptions(args, { email: { type: 'string' } });
  if (email === undefined || !/^[^\s@]+@[^\s@]+$/.test(email))
    throw new UsageError('--email <address> is needed');
  const config = readConfig({ LOG_LEVEL: 'warn', ...environment });
  makeFolderPrivate(config.dataFolder, createLogger(config.logLevel, { part: 'token' }));
  const issuer = openDevIssuer(config);
  process.stdout.write(`${await issuer.mint(email)}\n`);
  return 0;
}
