import { canonicalTime } from '@tributary/core';
import { deliveryBody } from '../delivery-body.ts';
import type { HttpRequest } from '../http/exchange.ts';
import type { Part } from '../parts.ts';
import type { ElasticsearchSettings } from './settings.ts';

/** What of the answer is asked for. */
const FILTER = 'items.*.status,items.*.error.type,items.*.error.reason,error';

/** Creates a document for each delivery. */
export function createAll(settings: ElasticsearchSettings, deliveries: Part): HttpRequest {
  const lines = deliveries.map((delivery) => {
    const { timestamp } = delivery.event;
    const document = { '@timestamp': canonicalTime(timestamp) ?? timestamp, ...deliveryBody(delivery) };
    return `${JSON.stringify({ create: { _id: delivery.id } })}\n${JSON.stringify(document)}\n`;
  });
  return bulk(settings, lines.join(''));
}

/** Changes a document that is not there. */
export function changeNothing(settings: ElasticsearchSettings, id: string): HttpRequest {
  return bulk(settings, `${JSON.stringify({ update: { _id: id } })}\n{"doc":{}}\n`);
}

function bulk(settings: ElasticsearchSettings, body: string): HttpRequest {
  const url = new URL(settings.url);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/${settings.index}/_bulk`;
  url.search = `?filter_path=${FILTER}`;
  return { method: 'POST', url, headers: headersOf(settings), body };
}

function headersOf(settings: ElasticsearchSettings): string[] {
  const authorization = authorizationOf(settings);
  const headers = ['content-type', 'application/x-ndjson', 'accept', 'application/json'];
  return authorization === undefined ? headers : [...headers, 'authorization', authorization];
}

export function authorizationOf({ api_key, username, password }: ElasticsearchSettings): string | undefined {
  if (api_key !== undefined) return `ApiKey ${api_key}`;
  if (username === undefined) return undefined;
  return `Basic ${Buffer.from(`${username}:${password ?? ''}`).toString('base64')}`;
}
