export {
  folderHoldsProfiles,
  openSqliteProfileStore,
  type SqliteProfileStoreOptions,
} from './profile-store.ts';
export { type ExportedProfile, openProfileExport } from './profile-export.ts';
