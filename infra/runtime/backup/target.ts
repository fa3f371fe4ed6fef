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
