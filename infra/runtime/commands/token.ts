import { InvalidArgumentError } from 'commander';
import { type Environment, readConfig } from '../config/config.ts';
import { openDevIssuer } from '../issuer/dev-issuer.ts';
import { createLogger } from '../observability/logger.ts';
import { reportErrors } from '../process/lifecycle.ts';
import { useDataFolder } from '../process/usable-folder.ts';

export interface TokenOptions {
  readonly email: string;
}

/** `tributary token --email a@b.c`: prints an ID token. Needs no running server, only its data folder. */
export async function printToken({ email }: TokenOptions, environment: Environment): Promise<number> {
  if (!/^[^\s@]+@[^\s@]+$/.test(email)) throw new InvalidArgumentError('--email must be an address');
  const config = readConfig({ LOG_LEVEL: 'warn', ...environment });
  return reportErrors('token', async () => {
    useDataFolder(config, createLogger(config.logLevel, { part: 'token' }));
    const issuer = openDevIssuer(config);
    process.stdout.write(`${await issuer.mint(email)}\n`);
    return 0;
  });
}
