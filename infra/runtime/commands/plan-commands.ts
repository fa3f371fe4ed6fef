import { PLAN_FORMS } from '@tributary/core';
import { type Command, Option } from 'commander';
import { LANGUAGES, SDKS } from '../codegen/options.ts';
import type { Environment } from '../config/config.ts';
import type { CodegenOptions } from './codegen.ts';
import type { ExportOptions, ImportOptions } from './plan.ts';

type Add = (parent: Command, name: string, description: string) => Command;
type Run = <Options>(
  execute: (options: Options) => Promise<number>,
) => (options: Options, command: Command) => Promise<void>;

const URL_OPTION = ['--url <address>', 'address of the server', 'http://127.0.0.1:8080'] as const;
const WORKSPACE_OPTION = [
  '--workspace <id>',
  'the workspace; TRIBUTARY_API_KEY, or the file of TRIBUTARY_API_KEY_FILE, holds an API key of it',
] as const;
const LABEL_OPTION = ['--label <label>', 'only contracts with this label: a key, or key:value'] as const;
const OUT_OPTION = ['--out <file>', 'the file to write (default: standard output)'] as const;

/** `tributary plan` and `tributary codegen`. */
export function addPlanCommands(program: Command, environment: Environment, add: Add, run: Run): void {
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
      run<ExportOptions>(async (options) => (await import('./plan.ts')).exportPlan(options, environment)),
    );
  const archives = ['--archive-missing', 'archive active contracts that the document lacks'] as const;
  remote(add(plan, 'import', 'create and replace contracts from a document in any of the forms'))
    .argument('<file>', 'the document; - is standard input')
    .option(...archives)
    .action((file: string, options: ImportOptions, command: Command) =>
      run<ImportOptions>(async (given) => (await import('./plan.ts')).importPlan(file, given, environment))(
        options,
        command,
      ),
    );
  remote(add(plan, 'diff', 'print what an import would change; exit code 1 where it would'))
    .argument('<file>', 'the document; - is standard input')
    .option(...archives)
    .action((file: string, options: ImportOptions, command: Command) =>
      run<ImportOptions>(async (given) => (await import('./plan.ts')).diffPlan(file, given, environment))(
        options,
        command,
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
      run<CodegenOptions>(async (options) => (await import('./codegen.ts')).codegen(options, environment)),
    );
}
