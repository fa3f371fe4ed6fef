export {
  folderHoldsProfiles,
  openSqliteProfileStore,
  type SqliteProfileStoreOptions,
} from './profile-store.ts';
