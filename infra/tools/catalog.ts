import { createReadStream, existsSync } from 'node:fs';
import { CATALOG_STAGES } from '@tributary/processors/stages';
import { exportCatalog, importCatalog, type Rewritten } from '../adapters/catalog/log/index.ts';
import { type Environment, readCommandConfig, readConfig } from '../runtime/config/config.ts';
import type { Config } from '../runtime/config/settings.ts';
import { untilAvailable } from '../runtime/process/await-engines.ts';
import { lockFolder, useFolderOfServer } from '../runtime/process/data-folder.ts';
import { OperatorError } from '../runtime/process/lifecycle.ts';
import { provideTopics, removeSnapshot } from '../runtime/wiring/ports/event-log.ts';
import { counted, openLogAndCatalog, openLogOf, print, runCommand } from './command.ts';

/** Many times what a busy gateway is behind. */
const GATEWAYS_READ_WITHIN_MS = 2_000;

/**
 * `tributary catalog rewrite`: appends the state of the catalog to its topic as rows and drops the facts before them, so
 * that erased data exists nowhere any more. Runs beside other processes, and may be repeated at any time.
 */
export async function rewriteCatalog(environment: Environment): Promise<number> {
  const config = readConfig({ LOG_LEVEL: 'warn', ...environment });
  return runCommand('catalog', config, async (tools) => {
    const { catalog } = await openLogAndCatalog(tools);
    const rewritten = await catalog.rewrite({
      by: 'operator:catalog',
      stages: CATALOG_STAGES,
      stageTimeoutMs: config.startTimeoutMs,
      graceMs: GATEWAYS_READ_WITHIN_MS,
      done: (step) => tools.logger.info({ step }, 'the catalog is rewritten'),
    });
    // The catalog writes a new one when it is closed.
    await removeSnapshot(config);
    process.stdout.write(describe(rewritten, config));
    return 0;
  });
}

/** States what remains to be done before data counts as erased. */
function describe({ offset, rows, pieces, dropped }: Rewritten, config: Config): string {
  const lines = [
    `the catalog begins at ${offset} now, with ${rows} rows in ${counted(pieces, 'record')}; ${counted(dropped, 'record')} below it were dropped`,
    `the snapshot in ${config.dataFolder} is written anew; those in data folders of other machines are by the processes that run there, within ten minutes, and are to be removed where none does`,
    ...(config.kafkaBrokers.length === 0
      ? []
      : [
          `Kafka removes the bytes with the segments of ${config.prefix}catalog they are in: once those are closed (segment.ms) and the brokers looked after them (log.retention.check.interval.ms, file.delete.delay.ms)`,
        ]),
    'what the audit log tells of the past is in the history, and goes with its retention',
  ];
  return `${lines.join('\n')}\n`;
}

/**
 * `tributary catalog export`: prints all records of the catalog, with their offsets, as lines of JSON, and a last line
 * without which the file is incomplete. Runs beside other processes.
 */
export async function printCatalog(environment: Environment): Promise<number> {
  return runCommand('catalog export', readCommandConfig(environment), async (tools) => {
    for await (const line of exportCatalog(await openLogOf(tools)))
      if (!process.stdout.write(line))
        await new Promise<void>((resolve) => process.stdout.once('drain', () => resolve()));
    return 0;
  });
}

/**
 * `tributary catalog import <file>`: appends an export to an empty catalog, under the same offsets. All processes must be
 * stopped. One that was killed is continued when it is called again.
 */
export async function readCatalog(file: string, _options: object, environment: Environment): Promise<number> {
  return runCommand('catalog import', readCommandConfig(environment), async (tools) => {
    const { config, logger, cleanup, deadline } = tools;
    if (!existsSync(file)) throw new OperatorError(`${file} does not exist`);
    useFolderOfServer(config, logger);
    if (config.kafkaBrokers.length === 0) {
      const lock = lockFolder(config.dataFolder);
      cleanup.use({ close: () => lock.release() });
    }
    const log = await openLogOf(tools);
    await provideTopics(log, config, deadline);
    const { end, appended } = await untilAvailable('importing the catalog', deadline, () =>
      importCatalog(log, () => linesOf(file)),
    );
    // It may be of the catalog that was lost.
    await removeSnapshot(config);
    print(
      `the catalog ends at ${end} now; ${counted(appended, 'record')} ${appended === 1 ? 'was' : 'were'} appended`,
    );
    return 0;
  });
}

/** The lines of a file. `node:readline` also splits at characters that JSON has inside of strings. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of createReadStream(file, 'utf8')) {
    const lines = (rest + String(chunk)).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  if (rest !== '') yield rest;
}
