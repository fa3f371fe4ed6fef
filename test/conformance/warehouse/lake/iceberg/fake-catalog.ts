import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { isObject, parseExact } from '@tributary/core';
import { answering, onLoopback } from '../../../../helpers/on-loopback.ts';
import type { TestCatalog } from './harness.ts';

/*
 * A REST catalog of Iceberg in this process, by its specification: what loaders need of it, and no metadata files. The real one
 * runs the same suites in the long form.
 */

type Document = Record<string, unknown>;

class Refused extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

interface FakeCatalog {
  /** Changes the metadata of a table by hand. */
  change(namespace: string, name: string, change: (metadata: Document) => void): void;
  /** Tokens of before are none from then on. */
  endToken(): void;
}

export async function startFakeCatalog(): Promise<TestCatalog & FakeCatalog> {
  let token = `token-${randomUUID()}`;
  const namespaces = new Map<string, Map<string, Document>>();
  const tablesOf = (namespace: string) => {
    const tables = namespaces.get(namespace);
    if (tables === undefined) throw new Refused(404, 'no such namespace');
    return tables;
  };

  const answer = (method: string, url: URL, body: Document): Document | undefined => {
    const parts = url.pathname.split('/').slice(1).map(decodeURIComponent);
    if (parts.join('/') === 'v1/config') return { defaults: {}, overrides: { prefix: 'lake' } };
    const [version, prefix, kind, namespace, of, table] = parts;
    if (version !== 'v1' || prefix !== 'lake' || kind !== 'namespaces')
      throw new Refused(404, 'no such path');
    if (namespace === undefined) {
      const [name] = body.namespace as string[];
      if (name === undefined || namespaces.has(name)) throw new Refused(409, 'there already');
      namespaces.set(name, new Map());
      return body;
    }
    const tables = tablesOf(namespace);
    if (of === undefined) {
      if (method === 'DELETE' && tables.size > 0) throw new Refused(409, 'not empty');
      if (method === 'DELETE') namespaces.delete(namespace);
      return method === 'DELETE' ? undefined : { namespace: [namespace], properties: {} };
    }
    if (table === undefined) {
      if (method === 'GET')
        return { identifiers: [...tables.keys()].map((name) => ({ namespace: [namespace], name })) };
      const name = String(body.name);
      if (tables.has(name)) throw new Refused(409, 'there already');
      const metadata = created(body);
      tables.set(name, metadata);
      return { metadata };
    }
    const metadata = tables.get(table);
    if (metadata === undefined) throw new Refused(404, 'no such table');
    if (method === 'DELETE') {
      tables.delete(table);
      return undefined;
    }
    if (method === 'GET') return { metadata: shown(metadata, url.searchParams.get('snapshots')) };
    const changed = structured(metadata);
    for (const requirement of body.requirements as Document[]) check(changed, requirement);
    for (const update of body.updates as Document[]) apply(changed, update);
    tables.set(table, changed);
    return { metadata: changed };
  };

  const server = createServer(
    answering(async (request, response) => {
      const send = (status: number, document: Document | undefined) =>
        response
          .writeHead(document === undefined ? 204 : status, { 'content-type': 'application/json' })
          .end(document === undefined ? '' : JSON.stringify(document));
      try {
        const url = new URL(request.url ?? '', 'http://catalog');
        const body = await bodyOf(request);
        if (url.pathname === '/v1/oauth/tokens')
          return send(200, { access_token: token, token_type: 'bearer', expires_in: 3_600 });
        if (request.headers.authorization !== `Bearer ${token}`) throw new Refused(401, 'who are you?');
        send(200, answer(request.method ?? '', url, body));
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        send(error.status, { error: { message: error.message, code: error.status, type: 'Refused' } });
      }
    }),
  );
  return {
    ...(await onLoopback(server)),
    table: async (namespace, name) => namespaces.get(namespace)?.get(name),
    drop: async (namespace, name) => void namespaces.get(namespace)?.delete(name),
    change(namespace, name, change) {
      const metadata = namespaces.get(namespace)?.get(name);
      if (metadata !== undefined) change(metadata);
    },
    endToken() {
      token = `token-${randomUUID()}`;
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<Document> {
  const sent = await text(request);
  if (!sent.startsWith('{')) return {};
  const body: unknown = parseExact(sent);
  return isObject(body) ? body : {};
}

function structured(metadata: Document): Document {
  return parseExact(JSON.stringify(metadata)) as Document;
}

function created(body: Document): Document {
  const schema = body.schema as Document;
  const spec = body['partition-spec'] as Document;
  const fields = schema.fields as Document[];
  return {
    'format-version': 2,
    'table-uuid': randomUUID(),
    location: body.location,
    'last-sequence-number': 0,
    'last-updated-ms': Date.now(),
    'last-column-id': Math.max(...fields.map(({ id }) => Number(id))),
    'current-schema-id': 0,
    schemas: [{ ...schema, 'schema-id': 0 }],
    'default-spec-id': 0,
    'partition-specs': [{ ...spec, 'spec-id': 0 }],
    'last-partition-id': 1_000,
    'default-sort-order-id': 0,
    'sort-orders': [{ 'order-id': 0, fields: [] }],
    properties: body.properties ?? {},
    'current-snapshot-id': null,
    refs: {},
    snapshots: [],
  };
}

function shown(metadata: Document, which: string | null): Document {
  if (which !== 'refs') return metadata;
  const refs = Object.values(metadata.refs as Record<string, Document>);
  const held = new Set(refs.map((ref) => JSON.stringify(ref['snapshot-id'])));
  const snapshots = (metadata.snapshots as Document[]).filter((one) =>
    held.has(JSON.stringify(one['snapshot-id'])),
  );
  return { ...metadata, snapshots };
}

const same = (one: unknown, other: unknown) => JSON.stringify(one ?? null) === JSON.stringify(other ?? null);

function check(metadata: Document, { type, ...required }: Document): void {
  const refs = metadata.refs as Record<string, Document>;
  const isMet =
    type === 'assert-table-uuid'
      ? required.uuid === metadata['table-uuid']
      : type === 'assert-ref-snapshot-id'
        ? same(refs[String(required.ref)]?.['snapshot-id'], required['snapshot-id'])
        : type === 'assert-current-schema-id'
          ? required['current-schema-id'] === metadata['current-schema-id']
          : undefined;
  if (isMet === undefined) throw new Refused(400, `no such requirement: ${type}`);
  if (!isMet) throw new Refused(409, `not met: ${type}`);
}

function apply(metadata: Document, { action, ...update }: Document): void {
  const snapshots = metadata.snapshots as Document[];
  const schemas = metadata.schemas as Document[];
  switch (action) {
    case 'add-schema': {
      const schema = update.schema as Document;
      const id = Math.max(...schemas.map((one) => Number(one['schema-id']))) + 1;
      schemas.push({ ...schema, 'schema-id': id });
      const ids = (schema.fields as Document[]).map((field) => Number(field.id));
      metadata['last-column-id'] = Math.max(Number(metadata['last-column-id']), ...ids);
      return;
    }
    case 'set-current-schema':
      if (update['schema-id'] !== -1) throw new Refused(400, 'only the added one');
      metadata['current-schema-id'] = schemas.at(-1)?.['schema-id'];
      return;
    case 'add-snapshot': {
      const snapshot = update.snapshot as Document;
      if (Number(snapshot['sequence-number']) <= Number(metadata['last-sequence-number']))
        throw new Refused(400, 'a sequence number that was');
      if (snapshots.some((one) => same(one['snapshot-id'], snapshot['snapshot-id'])))
        throw new Refused(400, 'a snapshot that is there');
      metadata['last-sequence-number'] = snapshot['sequence-number'];
      snapshots.push(snapshot);
      return;
    }
    case 'set-snapshot-ref': {
      const { 'ref-name': name, ...ref } = update;
      if (!snapshots.some((one) => same(one['snapshot-id'], ref['snapshot-id'])))
        throw new Refused(400, 'no such snapshot');
      (metadata.refs as Document)[String(name)] = ref;
      if (name === 'main') metadata['current-snapshot-id'] = ref['snapshot-id'];
      return;
    }
    case 'remove-snapshots': {
      const ids = new Set((update['snapshot-ids'] as unknown[]).map((id) => JSON.stringify(id)));
      metadata.snapshots = snapshots.filter((one) => !ids.has(JSON.stringify(one['snapshot-id'])));
      return;
    }
    case 'set-properties':
      metadata.properties = { ...(metadata.properties as Document), ...(update.updates as Document) };
      return;
    default:
      throw new Refused(400, `no such update: ${action}`);
  }
}
