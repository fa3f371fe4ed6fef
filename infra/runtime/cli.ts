import { ORGANIZATION_ROLES, PLAN_FORMS, WORKSPACE_ROLES } from '@tributary/core';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import type { RestoreOptions } from '../tools/backup/restore.ts';
import type { Language, Sdk } from '../tools/codegen/codegen.ts';
import type { TopicFormat } from '../tools/topics.ts';
import { ConfigError, describeConfig, type Environment } from './config/config.ts';
import { buildVersion } from './observability/system-view.ts';

/** The exit code for a wrong command line or configuration. */
const WRONG_USE = 2;

const LANGUAGES: readonly Language[] = ['typescript', 'python', 'go'];
const SDKS: readonly Sdk[] = ['segment', 'rudderstack', 'browser'];
const TOPIC_FORMATS: readonly TopicFormat[] = ['table', 'strimzi', 'terraform'];
const STAGES = ['--stages <names>', 'stages, separated by commas (default: all of them)'] as const;

const JSON_OPTION = ['--json', 'print JSON, for scripts'] as const;

const URL_OPTION = ['--url <address>', 'address of the server', 'http://127.0.0.1:8080'] as const;
const WORKSPACE_OPTION = [
  '--workspace <id>',
  'the workspace; TRIBUTARY_API_KEY, or the file of TRIBUTARY_API_KEY_FILE, holds an API key of it',
] as const;
const LABEL_OPTION = ['--label <label>', 'only contracts with this label: a key, or key:value'] as const;
const OUT_OPTION = ['--out <file>', 'the file to write (default: standard output)'] as const;

/**
 * Runs one command and resolves to its exit code: 0 on success, 1 if it failed or left something undone, 2 for a wrong
 * command line or configuration, which is reported on standard error without a stack.
 */
export async function runCli(args: readonly string[], environment: Environment): Promise<number> {
  let exitCode = 0;
  let name = '';
  const program = describeProgram((load) => async (...given) => {
    name = pathOf(given.pop() as Command);
    const execute = await load();
    exitCode = await execute(...([...given, environment] as unknown as Parameters<typeof execute>));
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

/**
 * Wraps a command for `Command.action`: a function of its arguments and options, and of the environment. It is imported when
 * it runs, so that the short ones start quickly.
 */
type Run = <Given extends unknown[]>(
  load: () => Promise<(...given: [...Given, Environment]) => Promise<number>>,
) => (...given: [...Given, Command]) => Promise<void>;

function describeProgram(run: Run): Command {
  /** For a command without options. */
  const alone = (load: () => Promise<(environment: Environment) => Promise<number>>) =>
    run(async () => {
      const execute = await load();
      return (_options: object, environment: Environment) => execute(environment);
    });
  const program = setUp(new Command('tributary').exitOverride())
    .description('A customer-data pipeline: durable events in, unified profiles and reliable deliveries out.')
    .showHelpAfterError();

  add(program, 'dev', 'run everything in one process for development, with an issuer of its own').action(
    alone(async () => (await import('./commands/dev.ts')).dev),
  );
  add(program, 'serve', 'run everything in one process in production, with sign-in by OpenID Connect').action(
    alone(async () => (await import('./commands/serve.ts')).serve),
  );
  add(program, 'gateway', 'run the HTTP side alone, on Kafka').action(
    alone(async () => (await import('./commands/gateway.ts')).runGateway),
  );
  add(program, 'processor', 'run all stages, or some of them, on Kafka')
    .option(...STAGES)
    .action(run(async () => (await import('./commands/processor.ts')).runProcessor));
  add(program, 'topics', 'create the missing topics on Kafka and correct the settings of the others')
    .option(
      '--partitions <topic=number...>',
      'grow topics beside running processes, to multiples of what they have; a number alone: all topics with an order',
    )
    .option('--print', 'print the declared topics instead; without KAFKA_BROKERS as they are configured')
    .addOption(new Option('--format <format>', 'with --print (default: table)').choices(TOPIC_FORMATS))
    .option('--cluster <name>', 'with --print: the Kafka resource of Strimzi (default: my-cluster)')
    .action(run(async () => (await import('../tools/topics.ts')).makeTopics));
  add(program, 'positions', 'print the positions of all stages on Kafka, or set one that is lost')
    .option('--stage <name>', 'the stage whose position is set, with --topic and --to')
    .option('--topic <name>', 'the topic that it reads, without the prefix')
    .option('--partition <number>', 'one partition (default: all whose position is lost)')
    .option('--to <position>', 'first, end, an offset, or a time (ISO 8601)')
    .action(run(async () => (await import('../tools/positions.ts')).positions));
  add(program, 'stages', 'print what each stage has to do, its rates, and how many processes that takes')
    .option('--json', 'print JSON')
    .option('--over <seconds>', 'time that the rates are measured over (default: 5)')
    .action(run(async () => (await import('../tools/stages.ts')).stages));
  add(program, 'redrive', 'hand dead-lettered entries to their stages again')
    .option(...STAGES)
    .option('--list', 'print what there is and why it failed, and redrive nothing')
    .action(run(async () => (await import('../tools/redrive.ts')).redrive));
  addAdminCommands(program, run);
  addPlanCommands(program, run);
  const secrets = add(
    program,
    'secrets',
    'maintain the secrets of destinations and sources',
  ).showHelpAfterError();
  add(secrets, 'rotate', 'seal all secrets under the first key').action(
    alone(async () => (await import('../tools/secrets.ts')).rotateAllSecrets),
  );
  const catalog = add(program, 'catalog', 'maintain the catalog').showHelpAfterError();
  add(catalog, 'rewrite', 'drop the history of the catalog and keep its state').action(
    alone(async () => (await import('../tools/catalog.ts')).rewriteCatalog),
  );
  add(program, 'upgrade', 'finish the upgrade to this release; then there is no way back').action(
    alone(async () => (await import('../tools/upgrade.ts')).upgrade),
  );
  add(catalog, 'export', 'print all records of the catalog, to be kept in a file').action(
    alone(async () => (await import('../tools/catalog.ts')).printCatalog),
  );
  add(catalog, 'import', 'append an export to an empty catalog, with all processes stopped')
    .argument('<file>', 'an export')
    .action(run(async () => (await import('../tools/catalog.ts')).readCatalog));
  add(program, 'backup', 'back up the stores of the data folder at one moment, while it is used')
    .argument('<target>', 'the folder that holds the backups')
    .option('--keep <number>', 'remove all older backups of the target but so many (default: all are kept)')
    .option('--no-keys', 'leave out the files with keys')
    .action(run(async () => (await import('../tools/backup/backup.ts')).backup));
  add(program, 'restore', 'restore a backup as a new data folder')
    .argument('<source>', 'the target of the backup')
    .option('--data-dir <folder>', 'the folder, which must be empty or missing')
    .option('--backup <name>', 'one of --list (default: the newest)')
    .option('--list', 'print the finished backups instead')
    .option('--check', 'read the backup and compare all checksums instead')
    .action(run<[string, RestoreOptions]>(async () => (await import('../tools/backup/restore.ts')).restore));
  add(program, 'move', 'move the installation of a data folder to Kafka, Redis and Elasticsearch')
    .option('--check', 'print what would be moved and what stands against it, and move nothing')
    .option('--forget-deletions', 'leave out deletions of profiles that an older release made')
    .action(run(async () => (await import('../tools/move/move.ts')).move));
  add(program, 'adopt-stores', 'give stores of another installation to this one, with all their data')
    .requiredOption('--from <id>', 'id of that installation, or none for stores without one')
    .action(run(async () => (await import('../tools/adopt-stores.ts')).adoptStores));
  add(program, 'token', 'print an ID token of the development issuer')
    .option(
      '--email <address>',
      'the person it is for (default: the one whose workspace tributary dev prints)',
    )
    .option('--create-key', 'create the key of a data folder that no server has used yet')
    .action(run(async () => (await import('../tools/token.ts')).printToken));
  add(program, 'config', 'print the reference of all settings').action(
    alone(async () => async () => {
      process.stdout.write(`${describeConfig()}\n`);
      return 0;
    }),
  );
  return program;
}

/** The sub-commands of `tributary admin`. */
function addAdminCommands(program: Command, run: Run): void {
  const load = () => import('../tools/admin.ts');
  const admin = add(program, 'admin', 'set up an installation, and let people in').showHelpAfterError();
  add(admin, 'init', 'create the first organization, its workspace and owner, and an API key')
    .option('--email <address>', 'the first owner, who joins at the first sign-in with this verified address')
    .option('--no-owner', 'name no owner: the installation is used with API keys alone')
    .option('--organization <name>', 'name of the organization', 'Organization')
    .option('--workspace <name>', 'name of the workspace', 'Production')
    .option('--region <code>', 'region of its profiles (default: eu)')
    .option(...JSON_OPTION)
    .action(run(async () => (await load()).adminInit));
  add(admin, 'status', 'print the organizations with their members, workspaces and API keys')
    .option(...JSON_OPTION)
    .action(run(async () => (await load()).adminStatus));
  add(admin, 'add-member', 'give a person a role in an organization')
    .requiredOption('--email <address>', 'the person, as the issuer verified the address')
    .addOption(
      new Option('--role <role>', 'role in the organization').choices(ORGANIZATION_ROLES).default('admin'),
    )
    .option('--organization <id>', 'the organization (default: the only one)')
    .option(...JSON_OPTION)
    .action(run(async () => (await load()).adminAddMember));
  add(admin, 'create-key', 'create an API key, and show it once')
    .option('--workspace <id>', 'its workspace (default: the only one)')
    .option('--name <name>', 'name of the key; an active key of this name is kept', 'operator')
    .addOption(new Option('--role <role>', 'role in the workspace').choices(WORKSPACE_ROLES).default('admin'))
    .option('--may-manage <what>', 'what else it may do: keys, members or both, separated by a comma')
    .option('--expires-in <time>', 'how long it is valid, e.g. 90d (default: until it is revoked)')
    .option('--replace', 'create it although there is one of this name, and revoke that one')
    .option(...JSON_OPTION)
    .action(run(async () => (await load()).adminCreateKey));
  add(admin, 'set-budget', 'set how many bytes the events of a workspace may take')
    .option('--workspace <id>', 'the workspace (default: the only one)')
    .option('--bytes-per-hour <bytes>', 'e.g. 200GiB, unlimited, or default: as the installation')
    .option('--bytes-held <bytes>', 'the same for what the log keeps of it')
    .option(...JSON_OPTION)
    .action(run(async () => (await load()).adminSetBudget));
}

/** `tributary plan` and `tributary codegen`. */
function addPlanCommands(program: Command, run: Run): void {
  const plan = add(
    program,
    'plan',
    'export and import the contracts of a workspace as one document',
  ).showHelpAfterError();
  const remote = (command: Command) =>
    command
      .option(...URL_OPTION)
      .option(...WORKSPACE_OPTION)
      .option(...LABEL_OPTION);
  remote(add(plan, 'export', 'print the active contracts as one document'))
    .addOption(new Option('--format <name>', 'form of the document (default: tributary)').choices(PLAN_FORMS))
    .option(...OUT_OPTION)
    .action(run(async () => (await import('../tools/plan.ts')).exportPlan));
  const archives = ['--archive-missing', 'archive active contracts that the document lacks'] as const;
  remote(add(plan, 'import', 'create and replace contracts from a document in any of the forms'))
    .argument('<file>', 'the document; - is standard input')
    .option(...archives)
    .action(run(async () => (await import('../tools/plan.ts')).importPlan));
  remote(add(plan, 'diff', 'print what an import would change; exit code 1 where it would'))
    .argument('<file>', 'the document; - is standard input')
    .option(...archives)
    .action(run(async () => (await import('../tools/plan.ts')).diffPlan));
  remote(add(program, 'codegen', 'write a typed client for the contracts of a document or a workspace'))
    .addOption(
      new Option('--language <name>', 'language of the client').choices(LANGUAGES).makeOptionMandatory(),
    )
    .addOption(new Option('--sdk <name>', 'the SDK that sends').choices(SDKS).default('segment'))
    .option('--plan <file>', 'a document in any of the forms; - is standard input (default: ask the server)')
    .option('--package <name>', 'package of the file in Go', 'trackingplan')
    .option(...OUT_OPTION)
    .action(run(async () => (await import('../tools/codegen/codegen.ts')).codegen));
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
