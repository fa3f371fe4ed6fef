export {
  type ElasticsearchHistoryOptions,
  type HistoryImport,
  openElasticsearchHistory,
  openHistoryImport,
} from './history.ts';
