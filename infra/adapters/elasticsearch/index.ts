export type { ElasticsearchAccess, ElasticsearchCredentials } from './access.ts';
export type { ElasticsearchClient } from './client.ts';
export { ElasticsearchConnection } from './connection.ts';
export { errorTypeOf, refused } from './errors.ts';
export { indexPrefix } from './index-prefix.ts';
