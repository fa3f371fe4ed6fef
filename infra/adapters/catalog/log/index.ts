export { type LogCatalogOptions, openLogCatalog } from './catalog.ts';
