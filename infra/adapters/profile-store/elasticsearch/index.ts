export type {
  DocumentQuery,
  Documents,
  DocumentVersion,
  DocumentWrite,
  StoredDocument,
  WriteResult,
} from './documents.ts';
export { ProfileImport } from './profile-import.ts';
export {
  DocumentProfileStore,
  type ElasticsearchProfileStoreOptions,
  openElasticsearchProfileStore,
} from './profile-store.ts';
