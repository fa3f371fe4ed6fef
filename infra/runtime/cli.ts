import type { Command, Environment } from './command.ts';
import { ConfigError } from './config/config.ts';
import { UsageError } from './usage-error.ts';

/** Each is loaded when it is asked for: the short ones need little of what a server does. */
const COMMANDS: Readonly<Record<string, Command>> = {
  dev: {
    summary: 'everything in one process on this machine, development issuer on',
    load: async () => (await import('./commands/dev.ts')).dev,
  },
  gateway: {
    summary: 'the HTTP side alone, on Kafka',
    load: async () => (await import('./commands/gateway.ts')).runGateway,
  },
  processor: {
    summary: 'all stages, or some: --stages a,b; on Kafka',
    load: async () => (await import('./commands/processor.ts')).runProcessor,
  },
  topics: {
    summary: 'create the topics on Kafka, mend their settings; --print: say what they are',
    load: async () => (await import('./commands/topics.ts')).makeTopics,
  },
  positions: {
    summary: 'say where stages are on Kafka, or set where one goes on whose position is lost',
    load: async () => (await import('./commands/positions.ts')).positions,
  },
  secrets: {
    summary: 'rotate: seal all secrets under the first key',
    load: async () => (await import('./commands/secrets.ts')).secrets,
  },
  catalog: {
    summary: 'rewrite: drop all history of the catalog, keep its state',
    load: async () => (await import('./commands/catalog.ts')).catalog,
  },
  redrive: {
    summary: 'hand what stages gave up to them again: --stages a,b; --list: say what there is',
    load: async () => (await import('./commands/redrive.ts')).redrive,
  },
  'adopt-stores': {
    summary: 'give stores of another installation to this one: --from <its id>, or none',
    load: async () => (await import('./commands/adopt-stores.ts')).adoptStores,
  },
  token: {
    summary: 'print an ID token of the development issuer: --email a@b.c',
    load: async () => (await import('./commands/token.ts')).printToken,
  },
  config: {
    summary: 'print the reference of all environment variables',
    load: async () => (await import('./commands/config.ts')).printConfig,
  },
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
    const run = await command.load();
    return await run(rest, environment);
  } catch (error) {
    if (!(error instanceof ConfigError) && !(error instanceof UsageError)) throw error;
    process.stderr.write(`tributary ${name}: ${error.message}\n`);
    return 2;
  }
}

function usage(unknown: string | undefined): string {
  const lines = Object.entries(COMMANDS).map(
    ([name, { summary }]) => `  tributary ${name.padEnd(12)} ${summary}`,
  );
  return `${unknown === undefined ? '' : `tributary: no command "${unknown}"\n`}usage:\n${lines.join('\n')}\n`;
}
