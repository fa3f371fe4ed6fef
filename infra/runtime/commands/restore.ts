import { InvalidArgumentError } from 'commander';
import { findBackup, manifestKeys, readManifest } from '../backup/finished.ts';
import { BackupFault, backupName, type Manifest } from '../backup/manifest.ts';
import { openTarget } from '../backup/open-target.ts';
import { checkBackup, restore as restoreBackup } from '../backup/restore.ts';
import type { BackupTarget } from '../backup/target.ts';
import type { Environment } from '../config/config.ts';
import { reportErrors, translateFileError } from '../process/lifecycle.ts';

export interface RestoreOptions {
  readonly dataDir?: string;
  /** The name of a backup. */
  readonly backup?: string;
  readonly list?: true;
  readonly check?: true;
}

/**
 * `tributary restore <source> --data-dir <folder> [--backup name]`: restores the newest backup, or that one, as a new data
 * folder. With `--list` it prints the backups, with `--check` it reads one and compares all checksums.
 */
export async function restore(
  where: string,
  { dataDir, backup, list, check }: RestoreOptions,
  environment: Environment,
): Promise<number> {
  const forms = [dataDir, list, check].filter((form) => form !== undefined);
  if (forms.length !== 1) throw new InvalidArgumentError('name one of --data-dir, --list and --check');
  return reportErrors('restore', async () => {
    const source = await openTarget(where, environment);
    try {
      if (list) {
        process.stdout.write(await describeAll(source));
        return 0;
      }
      const manifest = await findBackup(source, backup);
      if (dataDir === undefined) {
        const bytes = await checkBackup(source, manifest);
        process.stdout.write(`the state of ${manifest.point.at} is whole: ${megabytes(bytes)}\n`);
        return 0;
      }
      await restoreBackup(source, manifest, dataDir);
      process.stdout.write(describeRestored(manifest, dataDir));
      return 0;
    } catch (error) {
      throw translateFileError(error);
    } finally {
      source.close();
    }
  });
}

async function describeAll(source: BackupTarget): Promise<string> {
  const lines: string[] = [];
  for (const key of await manifestKeys(source)) lines.push(await describeOne(source, key));
  return lines.length === 0 ? `${source.name} holds no finished backup\n` : lines.join('');
}

async function describeOne(source: BackupTarget, key: string): Promise<string> {
  try {
    const { point, version, installation, files } = await readManifest(source, key);
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    return `${backupName(key)}  ${point.at}  ${megabytes(bytes)}  ${version}  ${installation}\n`;
  } catch (error) {
    if (!(error instanceof BackupFault)) throw error;
    return `${backupName(key)}  ${error.message}\n`;
  }
}

function describeRestored({ point, files }: Manifest, folder: string): string {
  const hasKeys = files.some(({ path }) => path === 'secret-keys.json');
  const lines = [
    `${folder} holds the state of ${point.at}`,
    'events that were accepted later are not in it: have the producers send them again; what is in it already is not counted again within the deduplication window',
    'deliveries that were made later are made again, with the same ids',
    ...(hasKeys
      ? []
      : ['it has no secret-keys.json: put it there, or set TRIBUTARY_SECRET_KEYS, before the start']),
  ];
  return `${lines.join('\n')}\n`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
