export { type ElasticsearchHistoryOptions, openElasticsearchHistory } from './history.ts';
export { type HistoryImport, openHistoryImport } from './import-history.ts';
