import { createHash } from 'node:crypto';
import { OperatorError } from '../process/lifecycle.ts';

/** Raised with each change of the layout of a backup that an older release cannot restore. */
const FORMAT = 1;

/** A part of a file, stored under the SHA-256 of its content. `storedBytes`: its size in the target, compressed. */
export interface ChunkReference {
  readonly sha256: string;
  readonly storedBytes: number;
}

export interface BackedUpFile {
  /** Below the data folder, with `/`. */
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
  readonly chunks: readonly ChunkReference[];
  /** Fingerprint of a sealed segment, whose content never changes: the next backup takes the chunks over without reading it. */
  readonly fingerprint?: string;
}

/** Describes a finished backup. It is written last, so a backup without one is unfinished. */
export interface Manifest {
  readonly format: typeof FORMAT;
  /** The release that made the backup. */
  readonly version: string;
  readonly installation: string;
  /** The point of time, and the ends of all partitions of the log at it, by `topic/partition`. */
  readonly point: { readonly at: string; readonly log: Readonly<Record<string, number>> };
  readonly files: readonly BackedUpFile[];
}

/** A backup that cannot be restored, with what is wrong with it. */
export class BackupFault extends OperatorError {}

export function createManifest(content: Omit<Manifest, 'format'>): Manifest {
  return { format: FORMAT, ...content };
}

/** The manifest as it is stored: its JSON and, in the line before, the SHA-256 of that. */
export function manifestText(manifest: Manifest): string {
  const json = JSON.stringify(manifest);
  return `${digestOf(json)}\n${json}\n`;
}

/** `BackupFault` for anything that `manifestText` did not write. */
export function parseManifest(name: string, text: string): Manifest {
  const [digest, json] = text.split('\n');
  if (digest === undefined || json === undefined || digestOf(json) !== digest)
    throw new BackupFault(`the manifest ${name} is damaged: its checksum is another`);
  const manifest = JSON.parse(json) as Manifest;
  if (manifest.format !== FORMAT)
    throw new BackupFault(
      `the manifest ${name} has format ${manifest.format}, this release restores format ${FORMAT}: use the release that made it, ${manifest.version}`,
    );
  const unsafe = manifest.files.find(({ path }) => !isInside(path));
  if (unsafe !== undefined)
    throw new BackupFault(`the manifest ${name} has a path outside of the data folder`);
  return manifest;
}

const NAME = /^manifests\/\d{8}T\d{9}Z\.json$/;

/** The key of the manifest of a point. Keys sort by time. */
export function manifestKey(at: number): string {
  return `manifests/${new Date(at).toISOString().replace(/[-:.]/g, '')}.json`;
}

export function isManifestKey(key: string): boolean {
  return NAME.test(key);
}

/** The name of a backup for people: the time in the key of its manifest. */
export function backupName(key: string): string {
  return key.slice('manifests/'.length, -'.json'.length);
}

export function chunkKey(sha256: string): string {
  return `chunks/${sha256.slice(0, 2)}/${sha256}.gz`;
}

export function digestOf(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/** True for a relative path without steps upwards. */
function isInside(path: string): boolean {
  return (
    path !== '' && path.split('/').every((part) => !['', '.', '..'].includes(part) && !part.includes('\0'))
  );
}
