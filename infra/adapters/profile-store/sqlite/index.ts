export { openSqliteProfileStore, type SqliteProfileStoreOptions } from './profile-store.ts';
