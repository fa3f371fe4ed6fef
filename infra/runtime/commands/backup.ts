import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { InvalidArgumentError } from 'commander';
import { type BackupReport, backUp } from '../backup/backup.ts';
import { removeOlder } from '../backup/finished.ts';
import { openTarget } from '../backup/open-target.ts';
import { type Environment, readCommandConfig } from '../config/config.ts';
import type { Config } from '../config/settings.ts';
import { buildVersion } from '../observability/build-info.ts';
import { createLogger } from '../observability/logger.ts';
import { lockFile } from '../process/data-folder.ts';
import { OperatorError, reportErrors, translateFileError } from '../process/lifecycle.ts';
import { useFolderOfServer } from '../process/usable-folder.ts';

const POINT_TIMEOUT_MS = 60_000;

export interface BackupCommandOptions {
  /** How many backups the target keeps. */
  readonly keep?: string;
  /** False with `--no-keys`. */
  readonly keys: boolean;
}

/**
 * `tributary backup <target> [--keep n] [--no-keys]`: backs up the embedded stores at one moment, beside the processes that
 * use them. One backup of a data folder runs at a time.
 */
export async function backup(
  where: string,
  { keep, keys }: BackupCommandOptions,
  environment: Environment,
): Promise<number> {
  const kept = keep === undefined ? undefined : Number(keep);
  if (kept !== undefined && !(Number.isInteger(kept) && kept > 0))
    throw new InvalidArgumentError('--keep must be a whole number above 0');
  const config = readCommandConfig(environment);
  return reportErrors('backup', async () => {
    refuseEngines(config);
    const { dataFolder } = config;
    if (!existsSync(dataFolder)) throw new OperatorError(`${dataFolder} does not exist`);
    useFolderOfServer(config, createLogger(config.logLevel, { part: 'backup' }));
    const lock = lockFile(
      join(dataFolder, 'backup.lock'),
      () => new OperatorError(`another backup of ${dataFolder} is running`),
    );
    const target = await openTarget(where, environment);
    try {
      const options = { dataFolder, target, withKeys: keys, version: buildVersion() };
      const report = await backUp({ ...options, pointTimeoutMs: POINT_TIMEOUT_MS });
      process.stdout.write(describe(report, target.name, keys));
      if (kept !== undefined) {
        const { removed } = await removeOlder(target, kept);
        process.stdout.write(`${removed} older ${removed === 1 ? 'backup' : 'backups'} removed\n`);
      }
      return 0;
    } catch (error) {
      throw translateFileError(error);
    } finally {
      target.close();
      lock.release();
    }
  });
}

/** Stores on engines have no common point with those in the data folder. */
function refuseEngines({ kafkaBrokers, redisUrl, elasticsearchUrl }: Config): void {
  const engines = [
    ...(kafkaBrokers.length > 0 ? ['KAFKA_BROKERS'] : []),
    ...(redisUrl === undefined ? [] : ['REDIS_URL']),
    ...(elasticsearchUrl === undefined ? [] : ['ELASTICSEARCH_URL']),
  ];
  if (engines.length > 0)
    throw new OperatorError(
      `${engines.join(', ')} ${engines.length === 1 ? 'is' : 'are'} set: this command backs up the stores in the data folder alone, and those of engines are backed up by their own tools, see docs/operations/backup.md`,
    );
}

function describe(report: BackupReport, target: string, withKeys: boolean): string {
  const { manifest, name, writersWaitedMs, storedBytes, reusedBytes, leftOut } = report;
  const bytes = manifest.files.reduce((sum, file) => sum + file.bytes, 0);
  const lines = [
    `backup ${name} of the installation ${manifest.installation} is in ${target}`,
    `the state of ${manifest.point.at}: ${manifest.files.length} files, ${megabytes(bytes)}; ${megabytes(storedBytes)} stored now, ${megabytes(reusedBytes)} were there (compressed)`,
    `writers waited up to ${Math.ceil(writersWaitedMs)} ms`,
    ...(withKeys
      ? [
          'it holds the keys of the data folder: anybody who can read it can unseal the secrets of destinations',
        ]
      : [
          'keys are not in it: keep secret-keys.json elsewhere, without it no destination with a secret works',
        ]),
    ...(leftOut.length === 0 ? [] : [`not in it: ${leftOut.join(', ')}`]),
  ];
  return `${lines.join('\n')}\n`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
