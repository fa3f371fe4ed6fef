import { Client } from '@elastic/elasticsearch';
import type { ElasticsearchAccess } from './access.ts';

/** The client of the driver, as this project sets it up. */
export type ElasticsearchClient = Client;

/**
 * A client that sends nothing a second time by itself: whoever asked decides that. A node that failed is asked less
 * often until it answers again.
 */
export function createClient({ urls, credentials, ca }: ElasticsearchAccess, timeoutMs: number): Client {
  return new Client({
    nodes: [...urls],
    ...(credentials === undefined ? {} : { auth: credentials }),
    ...(ca === undefined ? {} : { tls: { ca } }),
    maxRetries: 0,
    requestTimeout: timeoutMs,
    enableMetaHeader: false,
  });
}
