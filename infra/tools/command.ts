import { type EventLog, type Logger, NO_METRICS } from '@tributary/core';
import type { RewritableCatalog } from '../adapters/catalog/log/index.ts';
import type { Config } from '../runtime/config/settings.ts';
import { createLogger } from '../runtime/observability/logger.ts';
import { catchUp, type StartDeadline, startDeadline } from '../runtime/process/await-engines.ts';
import { useFolderOfServer } from '../runtime/process/data-folder.ts';
import { CleanupStack, reportErrors } from '../runtime/process/lifecycle.ts';
import { openCatalog, openEventLog } from '../runtime/wiring/ports/event-log.ts';

/** What a command on an installation has. */
export interface CommandTools {
  readonly config: Config;
  readonly logger: Logger;
  /** Closes what the command has opened, also where it fails. */
  readonly cleanup: CleanupStack;
  /** How long the command waits for engines. */
  readonly deadline: StartDeadline;
}

/** Runs a command on an installation, and resolves to its exit code. `name`: for errors. */
export function runCommand(
  name: string,
  config: Config,
  work: (tools: CommandTools) => Promise<number>,
): Promise<number> {
  const logger = createLogger(config.logLevel, { part: name.split(' ', 1)[0] ?? name });
  return reportErrors(name, async () => {
    const cleanup = new CleanupStack();
    try {
      return await work({ config, logger, cleanup, deadline: startDeadline(config.startTimeoutMs, logger) });
    } finally {
      await cleanup.close();
    }
  });
}

/** The log of the installation, for a command beside its processes. */
export async function openLogOf({ config, logger, cleanup }: CommandTools): Promise<EventLog> {
  return cleanup.use(await openEventLog(config, { logger, metrics: NO_METRICS, dropExpired: false }));
}

/** The log and its catalog, read up to its end, for a command that changes it. `provide` makes the log ready to be read. */
export async function openLogAndCatalog(
  tools: CommandTools,
  provide: (log: EventLog) => Promise<void> = async () => {},
): Promise<{ readonly log: EventLog; readonly catalog: RewritableCatalog }> {
  const { config, logger, cleanup, deadline } = tools;
  useFolderOfServer(config, logger);
  const log = await openLogOf(tools);
  await provide(log);
  const catalog = cleanup.use(openCatalog(config, { log, logger }));
  await catchUp(catalog, deadline);
  return { log, catalog };
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** A number with its noun. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

const LISTED = 5;

/** The first names, and how many more there are. */
export function listed(names: readonly string[]): string {
  const more = names.length - LISTED;
  return `${names.slice(0, LISTED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** Rows as lines of aligned cells; columns from `numbersFrom` on are aligned to the right. */
export function tableText(
  rows: readonly (readonly string[])[],
  numbersFrom = Number.POSITIVE_INFINITY,
): string {
  const columns = Math.max(0, ...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  const lines = rows.map((row) =>
    row
      .map((cell, i) => (i < numbersFrom ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}
