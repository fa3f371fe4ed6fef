import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createConnectors } from '@tributary/connectors';
import type { Confinement, Logger, Mailer, Metrics } from '@tributary/core';
import {
  type IsolatedVmSandbox,
  type IsolatedVmSandboxOptions,
  limitsFor,
  openIsolatedVmSandbox,
} from '../../../adapters/sandbox/isolated-vm/index.ts';
import type { Config } from '../../config/settings.ts';

/** The connectors of a process; all connect through the same egress guard. */
export function openConnectors(
  config: Config,
  tools: { readonly logger: Logger; readonly metrics: Metrics },
) {
  return createConnectors({
    egressAllow: config.egressAllow,
    dataFolder: config.dataFolder,
    confinement: confinementOf(config),
    timeoutMs: config.deliveryTimeoutMs,
    clock: Date.now,
    logger: tools.logger,
    metrics: tools.metrics,
  });
}

/** The mailer; undefined if no mail server is configured. The server need not answer yet. */
export async function openMailer(config: Config): Promise<Mailer | undefined> {
  const { smtpUrl, smtpUsername: username, smtpPassword: password, smtpTlsCa: ca, mailFrom: from } = config;
  if (smtpUrl === undefined || from === undefined) return undefined;
  const { openSmtpMailer } = await import('../../../adapters/mailer/smtp/index.ts');
  return openSmtpMailer({
    ...smtpUrl,
    ...(username === undefined || password === undefined ? {} : { credentials: { username, password } }),
    ...(ca === undefined ? {} : { ca }),
    from,
  });
}

/** A sandbox with the configured limits. */
export function openSandbox(
  config: Config,
  tools: { readonly logger: Logger; readonly metrics: Metrics },
  workers: Pick<IsolatedVmSandboxOptions, 'processes'>,
): IsolatedVmSandbox {
  return openIsolatedVmSandbox({
    ...limitsFor({ eventMs: config.sandboxTimeMs, isolateMib: config.sandboxMemoryMib }),
    ...workers,
    ...confinementOf(config),
    logger: tools.logger,
    metrics: tools.metrics,
  });
}

const FOLDERS = ['/usr/bin', '/bin', '/usr/sbin', '/sbin'];

/**
 * Limits of confined processes: no core files, no writes to files, few descriptors, and a bound on the processes and
 * threads of their user, to which root is not subject.
 */
const LIMITS = ['--core=0:0', '--fsize=0:0', '--nofile=256:256'];
const PROCESS_LIMIT = '--nproc=4096:4096';

let wrappers: readonly string[] | undefined;

/**
 * The confinement of processes that run other people's code: another user if this process runs as root, and util-linux
 * (`setpriv`, `prlimit`). Each program is tried once; one that is missing or fails is left out.
 */
export function confinementOf({ sandboxUid: uid }: Pick<Config, 'sandboxUid'>): Confinement {
  wrappers ??= [...usable('setpriv', ['--no-new-privs']), ...usable('prlimit', LIMITS)];
  const hasOwnUser = process.getuid?.() === 0 && uid !== 0;
  const limitsProcesses = hasOwnUser && wrappers.includes(LIMITS[0] ?? '');
  return { uid, wrapper: limitsProcesses ? [...wrappers, PROCESS_LIMIT] : wrappers };
}

function usable(name: string, args: readonly string[]): readonly string[] {
  const program = FOLDERS.map((folder) => join(folder, name)).find((path) => existsSync(path));
  if (program === undefined) return [];
  const { status } = spawnSync(program, [...args, 'true'], {
    env: { PATH: FOLDERS.join(':') },
    stdio: 'ignore',
  });
  return status === 0 ? [program, ...args] : [];
}
