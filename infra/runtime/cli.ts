import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { addAdminCommands } from './commands/admin/commands.ts';
import type { AdoptStoresOptions } from './commands/adopt-stores.ts';
import type { BackupCommandOptions } from './commands/backup.ts';
import type { MoveCommandOptions } from './commands/move.ts';
import { addPlanCommands } from './commands/plan-commands.ts';
import type { PositionsOptions } from './commands/positions.ts';
import type { RedriveOptions } from './commands/redrive.ts';
import type { RestoreOptions } from './commands/restore.ts';
import type { StagesTableOptions } from './commands/stages.ts';
import type { StagesOptions } from './commands/stages-option.ts';
import type { TokenOptions } from './commands/token.ts';
import type { TopicFormat, TopicsOptions } from './commands/topics.ts';
import { ConfigError, describeConfig, type Environment } from './config/config.ts';
import { buildVersion } from './observability/build-info.ts';

/** The exit code for a wrong command line or configuration. */
const WRONG_USE = 2;

const TOPIC_FORMATS: readonly TopicFormat[] = ['table', 'strimzi', 'terraform'];
const STAGES = ['--stages <names>', 'stages, separated by commas (default: all of them)'] as const;

/**
 * Runs one command and resolves to its exit code: 0 on success, 1 if it failed or left something undone, 2 for a wrong
 * command line or configuration, which is reported on standard error without a stack.
 */
export async function runCli(args: readonly string[], environment: Environment): Promise<number> {
  let exitCode = 0;
  let name = '';
  const program = describeProgram(environment, (execute) => async (options, command) => {
    name = pathOf(command);
    exitCode = await execute(options);
  });
  try {
    await program.parseAsync(args.length === 0 ? ['--help'] : args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof InvalidArgumentError || error instanceof ConfigError) {
      process.stderr.write(`${name}: ${error.message}\n`);
      return WRONG_USE;
    }
    // Thrown by commander, which has written its message or the help already.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USE;
    throw error;
  }
}

/** Wraps a command for `Command.action`. */
type Run = <Options>(
  execute: (options: Options) => Promise<number>,
) => (options: Options, command: Command) => Promise<void>;

/** Each command is imported when it runs, so that the short ones start quickly. */
function describeProgram(environment: Environment, run: Run): Command {
  const program = setUp(new Command('tributary').exitOverride())
    .description('A customer-data pipeline: durable events in, unified profiles and reliable deliveries out.')
    .showHelpAfterError();

  add(program, 'dev', 'run everything in one process for development, with an issuer of its own').action(
    run(async () => (await import('./commands/dev.ts')).dev(environment)),
  );
  add(program, 'serve', 'run everything in one process in production, with sign-in by OpenID Connect').action(
    run(async () => (await import('./commands/serve.ts')).serve(environment)),
  );
  add(program, 'gateway', 'run the HTTP side alone, on Kafka').action(
    run(async () => (await import('./commands/gateway.ts')).runGateway(environment)),
  );
  add(program, 'processor', 'run all stages, or some of them, on Kafka')
    .option(...STAGES)
    .action(
      run<StagesOptions>(async (options) =>
        (await import('./commands/processor.ts')).runProcessor(options, environment),
      ),
    );
  add(program, 'topics', 'create the missing topics on Kafka and correct the settings of the others')
    .option(
      '--partitions <topic=number...>',
      'grow topics beside running processes, to multiples of what they have; a number alone: all topics with an order',
    )
    .option('--print', 'print the declared topics instead; without KAFKA_BROKERS as they are configured')
    .addOption(new Option('--format <format>', 'with --print (default: table)').choices(TOPIC_FORMATS))
    .option('--cluster <name>', 'with --print: the Kafka resource of Strimzi (default: my-cluster)')
    .action(
      run<TopicsOptions>(async (options) =>
        (await import('./commands/topics.ts')).makeTopics(options, environment),
      ),
    );
  add(program, 'positions', 'print the positions of all stages on Kafka, or set one that is lost')
    .option('--stage <name>', 'the stage whose position is set, with --topic and --to')
    .option('--topic <name>', 'the topic that it reads, without the prefix')
    .option('--partition <number>', 'one partition (default: all whose position is lost)')
    .option('--to <position>', 'first, end, an offset, or a time (ISO 8601)')
    .action(
      run<PositionsOptions>(async (options) =>
        (await import('./commands/positions.ts')).positions(options, environment),
      ),
    );
  add(program, 'stages', 'print what each stage has to do, its rates, and how many processes that takes')
    .option('--json', 'print JSON')
    .option('--over <seconds>', 'time that the rates are measured over (default: 5)')
    .action(
      run<StagesTableOptions>(async (options) =>
        (await import('./commands/stages.ts')).stages(options, environment),
      ),
    );
  add(program, 'redrive', 'hand dead-lettered entries to their stages again')
    .option(...STAGES)
    .option('--list', 'print what there is and why it failed, and redrive nothing')
    .action(
      run<RedriveOptions>(async (options) =>
        (await import('./commands/redrive.ts')).redrive(options, environment),
      ),
    );
  addAdminCommands(program, environment, add, run);
  addPlanCommands(program, environment, add, run);
  const secrets = add(program, 'secrets', 'maintain the secrets of destinations').showHelpAfterError();
  add(secrets, 'rotate', 'seal all secrets under the first key').action(
    run(async () => (await import('./commands/secrets.ts')).rotateAllSecrets(environment)),
  );
  const catalog = add(program, 'catalog', 'maintain the catalog').showHelpAfterError();
  add(catalog, 'rewrite', 'drop the history of the catalog and keep its state').action(
    run(async () => (await import('./commands/catalog.ts')).rewriteCatalog(environment)),
  );
  add(program, 'upgrade', 'finish the upgrade to this release; then there is no way back').action(
    run(async () => (await import('./commands/upgrade.ts')).upgrade(environment)),
  );
  add(catalog, 'export', 'print all records of the catalog, to be kept in a file').action(
    run(async () => (await import('./commands/catalog.ts')).printCatalog(environment)),
  );
  add(catalog, 'import', 'append an export to an empty catalog, with all processes stopped')
    .argument('<file>', 'an export')
    .action(
      runOn(run, async (file) => (await import('./commands/catalog.ts')).readCatalog(file, environment)),
    );
  add(program, 'backup', 'back up the stores of the data folder at one moment, while it is used')
    .argument('<target>', 'a folder, or s3://bucket/prefix (with the AWS_* variables)')
    .option('--keep <number>', 'remove all older backups of the target but so many (default: all are kept)')
    .option('--no-keys', 'leave out the files with keys')
    .action(
      runOn<BackupCommandOptions>(run, async (target, options) =>
        (await import('./commands/backup.ts')).backup(target, options, environment),
      ),
    );
  add(program, 'restore', 'restore a backup as a new data folder')
    .argument('<source>', 'the target of the backup')
    .option('--data-dir <folder>', 'the folder, which must be empty or missing')
    .option('--backup <name>', 'one of --list (default: the newest)')
    .option('--list', 'print the finished backups instead')
    .option('--check', 'read the backup and compare all checksums instead')
    .action(
      runOn<RestoreOptions>(run, async (source, options) =>
        (await import('./commands/restore.ts')).restore(source, options, environment),
      ),
    );
  add(program, 'move', 'move the installation of a data folder to Kafka, Redis and Elasticsearch')
    .option('--check', 'print what would be moved and what stands against it, and move nothing')
    .option('--forget-deletions', 'leave out deletions of profiles that an older release made')
    .action(
      run<MoveCommandOptions>(async (options) =>
        (await import('./commands/move.ts')).move(options, environment),
      ),
    );
  add(program, 'adopt-stores', 'give stores of another installation to this one, with all their data')
    .requiredOption('--from <id>', 'id of that installation, or none for stores without one')
    .action(
      run<AdoptStoresOptions>(async (options) =>
        (await import('./commands/adopt-stores.ts')).adoptStores(options, environment),
      ),
    );
  add(program, 'token', 'print an ID token of the development issuer')
    .option(
      '--email <address>',
      'the person it is for (default: the one whose workspace tributary dev prints)',
    )
    .option('--create-key', 'create the key of a data folder that no server has used yet')
    .action(
      run<TokenOptions>(async (options) =>
        (await import('./commands/token.ts')).printToken(options, environment),
      ),
    );
  add(program, 'config', 'print the reference of all settings').action(
    run(async () => {
      process.stdout.write(`${describeConfig()}\n`);
      return 0;
    }),
  );
  return program;
}

/** As `run`, for a command with one argument. */
function runOn<Options>(run: Run, execute: (argument: string, options: Options) => Promise<number>) {
  return (argument: string, options: Options, command: Command) =>
    run<Options>((given) => execute(argument, given))(options, command);
}

function add(parent: Command, name: string, description: string): Command {
  return setUp(parent.command(name)).description(description);
}

/** Common to all commands: `--version`, whose text is computed on demand, and the form of error messages. */
function setUp(command: Command): Command {
  const path = pathOf(command);
  return command
    .option('-V, --version', 'print the version and the commit')
    .on('option:version', () => {
      process.stdout.write(`${buildVersion()}\n`);
      throw new CommanderError(0, 'commander.version', '');
    })
    .showHelpAfterError(`See ${path} --help`)
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error:/, `${path}:`)) });
}

/** The full name of a command, e.g. `tributary secrets rotate`. */
function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}
