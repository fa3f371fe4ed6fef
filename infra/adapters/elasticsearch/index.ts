export {
  type ElasticsearchAccess,
  type ElasticsearchClient,
  ElasticsearchConnection,
  type ElasticsearchCredentials,
  errorTypeOf,
  indexPrefix,
  refused,
} from './connection.ts';
