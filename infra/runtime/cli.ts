import type { Command, Environment } from './command.ts';
import { catalog } from './commands/catalog.ts';
import { printConfig } from './commands/config.ts';
import { dev } from './commands/dev.ts';
import { runGateway } from './commands/gateway.ts';
import { runProcessor } from './commands/processor.ts';
import { secrets } from './commands/secrets.ts';
import { printToken } from './commands/token.ts';
import { makeTopics } from './commands/topics.ts';
import { ConfigError } from './config/config.ts';
import { UsageError } from './usage-error.ts';

const COMMANDS: Readonly<Record<string, Command>> = {
  dev: { summary: 'everything in one process on this machine, development issuer on', run: dev },
  gateway: { summary: 'the HTTP side alone, on Kafka', run: runGateway },
  processor: { summary: 'all stages, or some: --stages a,b; on Kafka', run: runProcessor },
  topics: { summary: 'create the topics on Kafka', run: makeTopics },
  secrets: { summary: 'rotate: seal all secrets under the first key', run: secrets },
  catalog: { summary: 'rewrite: drop all history of the catalog, keep its state', run: catalog },
  token: { summary: 'print an ID token of the development issuer: --email a@b.c', run: printToken },
  config: { summary: 'print the reference of all environment variables', run: printConfig },
};

/** Runs one command; says what is wrong on standard error without a stack. */
export async function runCli(args: readonly string[], environment: Environment): Promise<number> {
  const [name = 'help', ...rest] = args;
  const command = COMMANDS[name];
  if (command === undefined) {
    const asked = name === 'help' || name === '--help' || name === '-h';
    (asked ? process.stdout : process.stderr).write(usage(asked ? undefined : name));
    return asked ? 0 : 2;
  }
  try {
    return await command.run(rest, environment);
  } catch (error) {
    if (!(error instanceof ConfigError) && !(error instanceof UsageError)) throw error;
    process.stderr.write(`tributary ${name}: ${error.message}\n`);
    return 2;
  }
}

function usage(unknown: string | undefined): string {
  const lines = Object.entries(COMMANDS).map(
    ([name, { summary }]) => `  tributary ${name.padEnd(10)} ${summary}`,
  );
  return `${unknown === undefined ? '' : `tributary: no command "${unknown}"\n`}usage:\n${lines.join('\n')}\n`;
}
