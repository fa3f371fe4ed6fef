import { InvalidArgumentError } from 'commander';
import { type Environment, readConfig } from '../runtime/config/config.ts';
import type { Config } from '../runtime/config/settings.ts';
import {
  DEVELOPER,
  expectServer,
  openDevIssuer,
  openExistingIssuer,
  TokenRefused,
  type TokenTest,
  testToken,
} from '../runtime/issuer/dev-issuer.ts';
import { createLogger } from '../runtime/observability/logger.ts';
import { useDataFolder } from '../runtime/process/data-folder.ts';
import { reportErrors } from '../runtime/process/lifecycle.ts';

export interface TokenOptions {
  /** Default: the person whose workspace `tributary dev` prints. */
  readonly email?: string;
  readonly createKey?: true;
}

/**
 * `tributary token`: prints an ID token, and to a person at a terminal also whose it is and what it gives access to. Needs
 * no running server, only its data folder. Fails where a running server would refuse the token.
 */
export async function printToken(
  { email = DEVELOPER, createKey }: TokenOptions,
  environment: Environment,
): Promise<number> {
  if (!/^[^\s@]+@[^\s@]+$/.test(email)) throw new InvalidArgumentError('--email must be an address');
  const config = readConfig({ LOG_LEVEL: 'warn', ...environment });
  return reportErrors('token', async () => {
    const token = await issuerOf(config, createKey).mint(email);
    const { url, isOfFolder } = expectServer(config, environment);
    const test: TokenTest = isOfFolder ? await testToken(url, token) : { answer: 'none' };
    if (test.answer === 'refused') throw new TokenRefused(url, config);
    process.stdout.write(`${token}\n`);
    if (process.stderr.isTTY) process.stderr.write(`${describeToken(email, config.dataFolder, url, test)}\n`);
    return 0;
  });
}

function issuerOf(config: Config, createKey: true | undefined) {
  if (createKey === undefined) return openExistingIssuer(config);
  useDataFolder(config, createLogger(config.logLevel, { part: 'token' }));
  return openDevIssuer(config);
}

/** Most workspaces in the text. */
const MAX_WORKSPACES = 3;

/** The account of the token and what it may do, in one line. */
export function describeToken(
  email: string,
  dataFolder: string,
  url: string,
  test: Exclude<TokenTest, { readonly answer: 'refused' }>,
): string {
  const whose = `The token of ${email}, for an hour`;
  if (test.answer === 'none') return `${whose}, for the server of ${dataFolder}; none answers now.`;
  const { workspaces } = test;
  if (workspaces.length === 0)
    return `${whose}, at ${url}: has access to no workspace yet, may create one, or be invited to one. npm start's workspace belongs to ${DEVELOPER} (npm run token).`;
  const shown = workspaces.slice(0, MAX_WORKSPACES).map(({ role, name }) => `${role} of ${name}`);
  const more = workspaces.length - shown.length;
  return `${whose}, at ${url}: ${shown.join(', ')}${more === 0 ? '' : ` and more (${more})`}.`;
}
