import { ORGANIZATION_ROLES, PLAN_FORMS, WORKSPACE_ROLES } from '@tributary/core';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import type { AddMemberOptions, CreateKeyOptions, InitOptions, SetBudgetOptions } from '../tools/admin.ts';
import type { AdoptStoresOptions } from '../tools/adopt-stores.ts';
import type { BackupCommandOptions } from '../tools/backup/backup.ts';
import type { RestoreOptions } from '../tools/backup/restore.ts';
import type { CodegenOptions, Language, Sdk } from '../tools/codegen/codegen.ts';
import type { MoveCommandOptions } from '../tools/move/move.ts';
import type { ExportOptions, ImportOptions } from '../tools/plan.ts';
import type { PositionsOptions } from '../tools/positions.ts';
import type { RedriveOptions } from '../tools/redrive.ts';
import type { StagesTableOptions } from '../tools/stages.ts';
import type { TokenOptions } from '../tools/token.ts';
import type { TopicFormat, TopicsOptions } from '../tools/topics.ts';
import type { StagesOptions } from './commands/stages-option.ts';
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
        (await import('../tools/topics.ts')).makeTopics(options, environment),
      ),
    );
  add(program, 'positions', 'print the positions of all stages on Kafka, or set one that is lost')
    .option('--stage <name>', 'the stage whose position is set, with --topic and --to')
    .option('--topic <name>', 'the topic that it reads, without the prefix')
    .option('--partition <number>', 'one partition (default: all whose position is lost)')
    .option('--to <position>', 'first, end, an offset, or a time (ISO 8601)')
    .action(
      run<PositionsOptions>(async (options) =>
        (await import('../tools/positions.ts')).positions(options, environment),
      ),
    );
  add(program, 'stages', 'print what each stage has to do, its rates, and how many processes that takes')
    .option('--json', 'print JSON')
    .option('--over <seconds>', 'time that the rates are measured over (default: 5)')
    .action(
      run<StagesTableOptions>(async (options) =>
        (await import('../tools/stages.ts')).stages(options, environment),
      ),
    );
  add(program, 'redrive', 'hand dead-lettered entries to their stages again')
    .option(...STAGES)
    .option('--list', 'print what there is and why it failed, and redrive nothing')
    .action(
      run<RedriveOptions>(async (options) =>
        (await import('../tools/redrive.ts')).redrive(options, environment),
      ),
    );
  addAdminCommands(program, environment, run);
  addPlanCommands(program, environment, run);
  const secrets = add(
    program,
    'secrets',
    'maintain the secrets of destinations and sources',
  ).showHelpAfterError();
  add(secrets, 'rotate', 'seal all secrets under the first key').action(
    run(async () => (await import('../tools/secrets.ts')).rotateAllSecrets(environment)),
  );
  const catalog = add(program, 'catalog', 'maintain the catalog').showHelpAfterError();
  add(catalog, 'rewrite', 'drop the history of the catalog and keep its state').action(
    run(async () => (await import('../tools/catalog.ts')).rewriteCatalog(environment)),
  );
  add(program, 'upgrade', 'finish the upgrade to this release; then there is no way back').action(
    run(async () => (await import('../tools/upgrade.ts')).upgrade(environment)),
  );
  add(catalog, 'export', 'print all records of the catalog, to be kept in a file').action(
    run(async () => (await import('../tools/catalog.ts')).printCatalog(environment)),
  );
  add(catalog, 'import', 'append an export to an empty catalog, with all processes stopped')
    .argument('<file>', 'an export')
    .action(runOn(run, async (file) => (await import('../tools/catalog.ts')).readCatalog(file, environment)));
  add(program, 'backup', 'back up the stores of the data folder at one moment, while it is used')
    .argument('<target>', 'the folder that holds the backups')
    .option('--keep <number>', 'remove all older backups of the target but so many (default: all are kept)')
    .option('--no-keys', 'leave out the files with keys')
    .action(
      runOn<BackupCommandOptions>(run, async (target, options) =>
        (await import('../tools/backup/backup.ts')).backup(target, options, environment),
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
        (await import('../tools/backup/restore.ts')).restore(source, options),
      ),
    );
  add(program, 'move', 'move the installation of a data folder to Kafka, Redis and Elasticsearch')
    .option('--check', 'print what would be moved and what stands against it, and move nothing')
    .option('--forget-deletions', 'leave out deletions of profiles that an older release made')
    .action(
      run<MoveCommandOptions>(async (options) =>
        (await import('../tools/move/move.ts')).move(options, environment),
      ),
    );
  add(program, 'adopt-stores', 'give stores of another installation to this one, with all their data')
    .requiredOption('--from <id>', 'id of that installation, or none for stores without one')
    .action(
      run<AdoptStoresOptions>(async (options) =>
        (await import('../tools/adopt-stores.ts')).adoptStores(options, environment),
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
        (await import('../tools/token.ts')).printToken(options, environment),
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

/** The sub-commands of `tributary admin`. */
function addAdminCommands(program: Command, environment: Environment, run: Run): void {
  const load = () => import('../tools/admin.ts');
  const admin = add(program, 'admin', 'set up an installation, and let people in').showHelpAfterError();
  add(admin, 'init', 'create the first organization, its workspace and owner, and an API key')
    .option('--email <address>', 'the first owner, who joins at the first sign-in with this verified address')
    .option('--no-owner', 'name no owner: the installation is used with API keys alone')
    .option('--organization <name>', 'name of the organization', 'Organization')
    .option('--workspace <name>', 'name of the workspace', 'Production')
    .option('--region <code>', 'region of its profiles (default: eu)')
    .option(...JSON_OPTION)
    .action(run<InitOptions>(async (options) => (await load()).adminInit(options, environment)));
  add(admin, 'status', 'print the organizations with their members, workspaces and API keys')
    .option(...JSON_OPTION)
    .action(run<object>(async (options) => (await load()).adminStatus(options, environment)));
  add(admin, 'add-member', 'give a person a role in an organization')
    .requiredOption('--email <address>', 'the person, as the issuer verified the address')
    .addOption(
      new Option('--role <role>', 'role in the organization').choices(ORGANIZATION_ROLES).default('admin'),
    )
    .option('--organization <id>', 'the organization (default: the only one)')
    .option(...JSON_OPTION)
    .action(run<AddMemberOptions>(async (options) => (await load()).adminAddMember(options, environment)));
  add(admin, 'create-key', 'create an API key, and show it once')
    .option('--workspace <id>', 'its workspace (default: the only one)')
    .option('--name <name>', 'name of the key; an active key of this name is kept', 'operator')
    .addOption(new Option('--role <role>', 'role in the workspace').choices(WORKSPACE_ROLES).default('admin'))
    .option('--may-manage <what>', 'what else it may do: keys, members or both, separated by a comma')
    .option('--expires-in <time>', 'how long it is valid, e.g. 90d (default: until it is revoked)')
    .option('--replace', 'create it although there is one of this name, and revoke that one')
    .option(...JSON_OPTION)
    .action(run<CreateKeyOptions>(async (options) => (await load()).adminCreateKey(options, environment)));
  add(admin, 'set-budget', 'set how many bytes the events of a workspace may take')
    .option('--workspace <id>', 'the workspace (default: the only one)')
    .option('--bytes-per-hour <bytes>', 'e.g. 200GiB, unlimited, or default: as the installation')
    .option('--bytes-held <bytes>', 'the same for what the log keeps of it')
    .option(...JSON_OPTION)
    .action(run<SetBudgetOptions>(async (options) => (await load()).adminSetBudget(options, environment)));
}

/** `tributary plan` and `tributary codegen`. */
function addPlanCommands(program: Command, environment: Environment, run: Run): void {
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
    .action(
      run<ExportOptions>(async (options) =>
        (await import('../tools/plan.ts')).exportPlan(options, environment),
      ),
    );
  const archives = ['--archive-missing', 'archive active contracts that the document lacks'] as const;
  remote(add(plan, 'import', 'create and replace contracts from a document in any of the forms'))
    .argument('<file>', 'the document; - is standard input')
    .option(...archives)
    .action(
      runOn<ImportOptions>(run, async (file, options) =>
        (await import('../tools/plan.ts')).importPlan(file, options, environment),
      ),
    );
  remote(add(plan, 'diff', 'print what an import would change; exit code 1 where it would'))
    .argument('<file>', 'the document; - is standard input')
    .option(...archives)
    .action(
      runOn<ImportOptions>(run, async (file, options) =>
        (await import('../tools/plan.ts')).diffPlan(file, options, environment),
      ),
    );
  remote(add(program, 'codegen', 'write a typed client for the contracts of a document or a workspace'))
    .addOption(
      new Option('--language <name>', 'language of the client').choices(LANGUAGES).makeOptionMandatory(),
    )
    .addOption(new Option('--sdk <name>', 'the SDK that sends').choices(SDKS).default('segment'))
    .option('--plan <file>', 'a document in any of the forms; - is standard input (default: ask the server)')
    .option('--package <name>', 'package of the file in Go', 'trackingplan')
    .option(...OUT_OPTION)
    .action(
      run<CodegenOptions>(async (options) =>
        (await import('../tools/codegen/codegen.ts')).codegen(options, environment),
      ),
    );
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
