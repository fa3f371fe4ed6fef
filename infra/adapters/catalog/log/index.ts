export type { RewriteOptions, RewriteStep, Rewritten } from './catalog.ts';
export { type LogCatalogOptions, openLogCatalog, type RewritableCatalog } from './catalog.ts';
export type { SnapshotOptions } from './snapshots.ts';
export { removeSnapshots } from './snapshots.ts';
export { CatalogRefused, exportCatalog, type Imported, importCatalog } from './transfer.ts';
