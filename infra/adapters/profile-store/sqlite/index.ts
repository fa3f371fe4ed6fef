export { type ExportedProfile, openProfileExport } from './profile-export.ts';
export {
  folderHoldsProfiles,
  openSqliteProfileStore,
  type SqliteProfileStoreOptions,
} from './profile-store.ts';
