export type { ExportedDedupeClaim } from '../digest.ts';
export {
  exportedDedupeClaims,
  openSqliteDeduplicator,
  type SqliteDeduplicatorOptions,
} from './deduplicator.ts';
