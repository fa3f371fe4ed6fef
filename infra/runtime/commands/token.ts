import type { Environment } from '../command.ts';
import { readConfig } from '../config/config.ts';
import { openDevIssuer } from '../issuer/dev-issuer.ts';
import { parseOptions, UsageError } from '../usage-error.ts';

/** `tributary token --email a@b.c`: prints an ID token alone. Needs no server, only its data folder. */
export async function printToken(args: readonly string[], environment: Environment): Promise<number> {
  const { email } = parseOptions(args, { email: { type: 'string' } });
  if (email === undefined || !/^[^\s@]+@[^\s@]+$/.test(email))
    throw new UsageError('--email <address> is needed');
  const issuer = openDevIssuer(readConfig(environment));
  process.stdout.write(`${await issuer.mint(email)}\n`);
  return 0;
}
