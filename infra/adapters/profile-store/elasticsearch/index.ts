export { DocumentProfileStore } from './document-store.ts';
export type {
  DocumentQuery,
  Documents,
  DocumentVersion,
  DocumentWrite,
  StoredDocument,
  WriteResult,
} from './documents.ts';
export { type ElasticsearchProfileStoreOptions, openElasticsearchProfileStore } from './profile-store.ts';
