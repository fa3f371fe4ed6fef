import { OperatorError } from '../process/lifecycle.ts';
import { openFolderTarget } from './folder-target.ts';

/**
 * Where backups are kept: objects by key, each written whole or not at all. A key is a relative path with `/`. A backup
 * writes chunks first and its manifest last.
 */
export interface BackupTarget {
  /** For messages. */
  readonly name: string;
  /** A folder of this machine for copies that are removed before the backup ends; undefined where there is none. */
  readonly staging: string | undefined;
  /** The stored size of every object below `prefix`, by key. */
  list(prefix: string): Promise<ReadonlyMap<string, number>>;
  /** Resolves once the object is durable. */
  put(key: string, content: Uint8Array): Promise<void>;
  /** Undefined where there is none. */
  get(key: string): Promise<Uint8Array | undefined>;
  remove(key: string): Promise<void>;
  close(): void;
}

const S3 = /^s3:\/\/(?<bucket>[^/]+)(?:\/(?<prefix>.*))?$/;

/** A folder, or `s3://bucket/prefix` with the standard settings of AWS in the environment. */
export async function openTarget(
  where: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<BackupTarget> {
  const { bucket, prefix = '' } = S3.exec(where)?.groups ?? {};
  if (bucket !== undefined) {
    const { openS3Target } = await import('./s3-target.ts');
    return openS3Target({ bucket, prefix: prefix.replace(/\/+$/, ''), environment });
  }
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(where))
    throw new OperatorError(`${where} is neither a folder nor s3://bucket/prefix`);
  return openFolderTarget(where);
}
