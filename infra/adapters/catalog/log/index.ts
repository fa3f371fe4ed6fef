export { type LogCatalogOptions, openLogCatalog } from './catalog.ts';
export type { SnapshotOptions } from './snapshots.ts';
