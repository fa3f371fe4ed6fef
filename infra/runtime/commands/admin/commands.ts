import { ORGANIZATION_ROLES, WORKSPACE_ROLES } from '@tributary/core';
import { type Command, Option } from 'commander';
import type { Environment } from '../../config/config.ts';
import type { AddMemberOptions, CreateKeyOptions, InitOptions } from './admin.ts';

type Add = (parent: Command, name: string, description: string) => Command;
type Run = <Options>(
  execute: (options: Options) => Promise<number>,
) => (options: Options, command: Command) => Promise<void>;

const JSON_OPTION = ['--json', 'print JSON, for scripts'] as const;

/** The sub-commands of `tributary admin`. */
export function addAdminCommands(program: Command, environment: Environment, add: Add, run: Run): void {
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
}

function load() {
  return import('./admin.ts');
}
