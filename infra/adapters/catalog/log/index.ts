export { type LogCatalogOptions, openLogCatalog, type RewritableCatalog } from './catalog.ts';
export type { RewriteOptions, RewriteStep, Rewritten } from './rewrite.ts';
export { removeSnapshots } from './snapshot-file.ts';
export type { SnapshotOptions } from './snapshots.ts';
export { CatalogRefused, exportCatalog, type Imported, importCatalog } from './transfer.ts';
