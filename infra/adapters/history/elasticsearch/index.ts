export { type ElasticsearchHistoryOptions, openElasticsearchHistory } from './history.ts';
