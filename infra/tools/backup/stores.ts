import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { TOPIC_GROUPS } from '../../adapters/event-log/sqlite/segment-file.ts';
import { embeddedFolders } from '../../runtime/process/data-folder.ts';

/** The parts of a data folder that a backup reads, as absolute paths. Only existing ones are listed. */
export interface StoreFiles {
  /** Folders of the topic groups of the log. */
  readonly groups: readonly string[];
  /** Folders of dedupe claims: `windows.db` in each is the lock of the folder. */
  readonly dedupeClaims: readonly string[];
  /** Stores that are one database file each. */
  readonly databases: readonly string[];
  /** Files that are written once: marks of the installation, and keys. */
  readonly files: readonly string[];
  /** Entries of the data folder that a backup leaves out, by name. */
  readonly leftOut: readonly string[];
}

/** Files with secrets at the top of the data folder. */
const KEY_FILES = ['secret-keys.json', 'dev-issuer.json', 'quickstart.json'];

/**
 * Entries at the top that a backup leaves out without a word: locks, reports that are renewed within seconds, evidence of
 * crashes of this machine's processes, and what is made from the log. A snapshot of the catalog may be newer than the point.
 */
const NOT_NEEDED =
  /^(health|ballast|crashes|moved\.json.*|server\.json.*|lock\.db.*|backup\.lock.*|backup-staging|.*catalog\.snapshot.*|.*\.lock.*)$/;

export function storeFiles(dataFolder: string, { withKeys }: { readonly withKeys: boolean }): StoreFiles {
  const folders = embeddedFolders({ dataFolder });
  const groups = groupFolders(dataFolder);
  const claims = [folders.dedupe, folders.reevaluated];
  const databases = [
    join(folders.volume, 'volume.db'),
    join(folders.funnel, 'funnel.db'),
    join(folders.profiles, 'profiles.db'),
    join(folders.history, 'history.db'),
  ];
  const marks = markFiles(dataFolder);
  const keys = KEY_FILES.map((name) => join(dataFolder, name));
  const known = new Set([
    'log',
    'dedupe',
    'volume',
    'funnel',
    'profiles',
    'history',
    'ndjson',
    ...(withKeys ? KEY_FILES : []),
  ]);
  return {
    groups: groups.filter((folder) => existsSync(folder)),
    dedupeClaims: claims.filter((folder) => existsSync(join(folder, 'windows.db'))),
    databases: databases.filter((file) => existsSync(file)),
    files: [...marks, ...(withKeys ? keys : [])].filter((file) => existsSync(file)),
    leftOut: readdirSync(dataFolder).filter((name) => !known.has(name) && !NOT_NEEDED.test(name)),
  };
}

function groupFolders(dataFolder: string): readonly string[] {
  const { log } = embeddedFolders({ dataFolder });
  return TOPIC_GROUPS.map((name) => join(log, name));
}

/** Whether a log of Tributary is in the folder. */
export function isDataFolder(folder: string): boolean {
  return groupFolders(folder).some((group) => existsSync(group));
}

/** The id in the marks of the stores; undefined where no process has marked one yet. */
export function markedInstallation(dataFolder: string): string | undefined {
  for (const file of markFiles(dataFolder)) {
    if (!existsSync(file)) continue;
    const id = readFileSync(file, 'utf8').trim();
    if (id !== '') return id;
  }
  return undefined;
}

function markFiles(dataFolder: string): readonly string[] {
  const { dedupe, volume, funnel, history, profiles } = embeddedFolders({ dataFolder });
  return [dedupe, volume, funnel, history, profiles].map((folder) => join(folder, 'installation'));
}

/** The files that destinations append to. */
export function appendedFiles(dataFolder: string): readonly string[] {
  const folder = join(dataFolder, 'ndjson');
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/** The path of a file below the data folder, as a manifest has it. */
export function pathInFolder(dataFolder: string, file: string): string {
  return relative(dataFolder, file).split(sep).join('/');
}
