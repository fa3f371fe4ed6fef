export { type ElasticsearchProfileStoreOptions, openElasticsearchProfileStore } from './profile-store.ts';
