import {
  type ColumnType,
  isObject,
  parseExact,
  parseObject,
  Unavailable,
  WarehouseRefused,
} from '@tributary/core';
import type { HttpRequest } from '../../../http/client.ts';
import type { ConnectorContext } from '../../../kind.ts';
import { HttpApi } from '../../http.ts';
import { DECIMAL } from '../cells.ts';
import { type CatalogSettings, lake } from '../settings.ts';

/** Bytes of one answer: the metadata of a table with thousands of snapshots and of columns. */
const MAX_RESPONSE_BYTES = 32 * 1_024 * 1_024;
/** Commits take longer than calls of other destinations, by this factor: the catalog writes into a bucket. */
const PATIENCE = 3;
/** A token is fetched anew so long before its end, ms. */
const MARGIN_MS = 60_000;
const TOKEN_MS = 3_600_000;
/** Pages of the list of tables, and tables. */
const MAX_PAGES = 1_000;
const MAX_TABLES = 50_000;
const REASON_LENGTH = 300;
/** Parts of a path, encoded as they are sent. */
const PREFIX =
  /^[\w~%!$&'()*+,;=:@-][\w.~%!$&'()*+,;=:@-]*(?:\/[\w~%!$&'()*+,;=:@-][\w.~%!$&'()*+,;=:@-]*)*$/;

type Document = Readonly<Record<string, unknown>>;

/** What became of a commit. */
export type CatalogCommit =
  | { readonly state: 'committed'; readonly table: TableMetadata }
  /** The table is not as required, or not there. */
  | { readonly state: 'conflict' }
  /** It may be committed, now or a little later. */
  | { readonly state: 'unknown'; readonly reason: string };

/** What the catalog answered. */
interface Answer {
  readonly status: number;
  readonly document: Document;
  /** What it says of an error, without secrets. */
  readonly reason: string;
}

/**
 * The calls of Iceberg's REST catalogs that loading needs, through the egress guard. Redirects are not followed, nor what a
 * catalog says of other addresses: no answer makes this process connect to anything else than the address of the settings.
 *
 * Errors: `Unavailable`, `WarehouseRefused`.
 */
export class RestCatalog {
  readonly #settings: CatalogSettings;
  readonly #context: ConnectorContext;
  readonly #http: HttpApi;
  #prefix: Promise<string> | undefined;
  #token: { readonly value: string; readonly until: number } | undefined;

  constructor(context: ConnectorContext, settings: CatalogSettings) {
    this.#settings = settings;
    this.#context = context;
    const timeoutMs = context.timeoutMs * PATIENCE;
    this.#http = new HttpApi(context, {
      maxResponseBytes: MAX_RESPONSE_BYTES,
      timeoutMs,
      about: 'the catalog: ',
    });
  }

  /** Undefined without the table. `snapshots`: those of branches and tags, or all that it has. */
  async table(
    name: string,
    snapshots: 'refs' | 'all',
    signal: AbortSignal,
  ): Promise<TableMetadata | undefined> {
    const path = `${this.#tablePath(name)}?snapshots=${snapshots}`;
    const answer = await this.#call('GET', path, undefined, signal);
    if (answer.status === 404) return undefined;
    return tableMetadata(name, this.#expected(answer).metadata);
  }

  /** Also makes the namespace. Undefined where the table is there. */
  async createTable(name: string, table: Document, signal: AbortSignal): Promise<TableMetadata | undefined> {
    const path = `${this.#path}/tables`;
    const body = { name, 'stage-create': false, ...table };
    let answer = await this.#call('POST', path, body, signal);
    if (answer.status === 404) {
      await this.createNamespace(signal);
      answer = await this.#call('POST', path, body, signal);
    }
    return answer.status === 409 ? undefined : tableMetadata(name, this.#expected(answer).metadata);
  }

  async commit(
    name: string,
    {
      requirements,
      updates,
    }: { readonly requirements: readonly Document[]; readonly updates: readonly Document[] },
    signal: AbortSignal,
  ): Promise<CatalogCommit> {
    const identifier = { namespace: [this.#settings.namespace], name };
    const body = { identifier, requirements, updates };
    let answer: Answer;
    try {
      answer = await this.#call('POST', this.#tablePath(name), body, signal);
    } catch (error) {
      if (error instanceof Unavailable) return { state: 'unknown', reason: error.message };
      throw error;
    }
    if (answer.status === 409 || answer.status === 404) return { state: 'conflict' };
    // Also 503: an address in between gives it for a catalog that has committed.
    if (answer.status >= 500 || answer.status === 429 || answer.status === 408)
      return { state: 'unknown', reason: `the catalog answered ${answer.status}` };
    return { state: 'committed', table: tableMetadata(name, this.#expected(answer).metadata) };
  }

  /** The names of all tables of the namespace that may be a loader's. */
  async tables(signal: AbortSignal): Promise<readonly string[]> {
    const names: string[] = [];
    let token: string | undefined;
    for (let page = 0; page < MAX_PAGES; page++) {
      const query = token === undefined ? '' : `?pageToken=${encodeURIComponent(token)}`;
      const answer = await this.#call('GET', `${this.#path}/tables${query}`, undefined, signal);
      if (answer.status === 404) return names;
      const { identifiers, 'next-page-token': next } = this.#expected(answer);
      for (const one of Array.isArray(identifiers) ? identifiers : [])
        if (isObject(one) && typeof one.name === 'string' && one.name.length <= lake.limits.nameLength)
          names.push(one.name);
      if (names.length > MAX_TABLES) break;
      token = typeof next === 'string' && next !== '' ? next : undefined;
      if (token === undefined) return names;
    }
    throw new WarehouseRefused('the catalog names too many tables');
  }

  /** False where the namespace is there. */
  async createNamespace(signal: AbortSignal): Promise<boolean> {
    const body = { namespace: [this.#settings.namespace], properties: {} };
    const answer = await this.#call('POST', 'namespaces', body, signal);
    if (answer.status === 409) return false;
    this.#expected(answer);
    return true;
  }

  /** One into which a load has put a table meanwhile stays: catalogs refuse that with 409, older ones with 400. */
  async dropNamespace(signal: AbortSignal): Promise<void> {
    const answer = await this.#call('DELETE', this.#path, undefined, signal);
    if (answer.status !== 400 && answer.status !== 409) this.#expected(answer, 404);
  }

  /** The files of the table stay. */
  async dropTable(name: string, signal: AbortSignal): Promise<void> {
    const path = `${this.#tablePath(name)}?purgeRequested=false`;
    this.#expected(await this.#call('DELETE', path, undefined, signal), 404);
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  get #path(): string {
    return `namespaces/${encodeURIComponent(this.#settings.namespace)}`;
  }

  #tablePath(name: string): string {
    return `${this.#path}/tables/${encodeURIComponent(name)}`;
  }

  /** The document of a success, or of this status. */
  #expected({ status, document, reason }: Answer, other?: number): Document {
    if ((status >= 200 && status < 300) || status === other) return document;
    const what = `the catalog answered ${status}${reason === '' ? '' : `: ${reason}`}`;
    if (status >= 500 || status === 429 || status === 408 || status === 409) throw new Unavailable(what);
    throw new WarehouseRefused(what);
  }

  async #call(
    method: HttpRequest['method'],
    path: string,
    body: Document | undefined,
    signal: AbortSignal,
  ): Promise<Answer> {
    this.#prefix ??= this.#readPrefix(signal);
    // One that failed is read again by the next call.
    const prefix = await this.#prefix.catch((error: unknown) => {
      this.#prefix = undefined;
      throw error;
    });
    return this.#authorized(method, `v1/${prefix}${path}`, body, signal);
  }

  /** What stands before all paths, with a `/`. */
  async #readPrefix(signal: AbortSignal): Promise<string> {
    const { catalog_warehouse: warehouse } = this.#settings;
    const query = warehouse === undefined ? '' : `?warehouse=${encodeURIComponent(warehouse)}`;
    const answer = await this.#authorized('GET', `v1/config${query}`, undefined, signal);
    const { defaults, overrides } = this.#expected(answer);
    const [least, most] = [defaults, overrides].map((one) => (isObject(one) ? one.prefix : undefined));
    const prefix = most ?? least;
    if (prefix === undefined || prefix === '') return '';
    if (typeof prefix !== 'string' || !PREFIX.test(prefix))
      throw new WarehouseRefused('the catalog names a prefix that is none');
    return `${prefix}/`;
  }

  async #authorized(
    method: HttpRequest['method'],
    path: string,
    body: Document | undefined,
    signal: AbortSignal,
  ): Promise<Answer> {
    const headers = ['accept', 'application/json', 'content-type', 'application/json'];
    const send = async () => {
      const token = await this.#bearer(signal);
      const authorization = token === undefined ? [] : ['authorization', `Bearer ${token}`];
      const sent = body === undefined ? {} : { body: JSON.stringify(body) };
      return this.#send(
        { method, url: this.#url(path), headers: [...headers, ...authorization], ...sent },
        signal,
      );
    };
    const answer = await send();
    if ((answer.status !== 401 && answer.status !== 419) || this.#token === undefined) return answer;
    // The token ended before its time.
    this.#token = undefined;
    return send();
  }

  #url(path: string): URL {
    return new URL(`${this.#settings.catalog_url.replace(/\/+$/, '')}/${path}`);
  }

  async #bearer(signal: AbortSignal): Promise<string | undefined> {
    const { catalog_token, catalog_client_id, catalog_client_secret, catalog_oauth_url, catalog_scope } =
      this.#settings;
    if (catalog_token !== undefined) return catalog_token;
    if (catalog_client_id === undefined || catalog_client_secret === undefined) return undefined;
    const now = this.#context.clock();
    if (this.#token !== undefined && this.#token.until > now) return this.#token.value;
    const form = new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: catalog_client_id,
      client_secret: catalog_client_secret,
      scope: catalog_scope,
    });
    const headers = ['accept', 'application/json', 'content-type', 'application/x-www-form-urlencoded'];
    const url = catalog_oauth_url === undefined ? this.#url('v1/oauth/tokens') : new URL(catalog_oauth_url);
    const answer = await this.#send({ method: 'POST', url, headers, body: form.toString() }, signal);
    if (answer.status >= 400 && answer.status < 500 && answer.status !== 429)
      throw new WarehouseRefused(
        `the catalog gives no token (${answer.status}): check the client and its secret`,
      );
    const { access_token: value, expires_in: seconds } = this.#expected(answer);
    if (typeof value !== 'string' || !/^[\x21-\x7e]{1,16000}$/.test(value))
      throw new Unavailable('the catalog gives no token');
    const lifeMs = typeof seconds === 'number' && seconds > 0 ? seconds * 1_000 : TOKEN_MS;
    this.#token = { value, until: now + Math.max(lifeMs / 2, lifeMs - MARGIN_MS) };
    return value;
  }

  async #send(request: HttpRequest, signal: AbortSignal): Promise<Answer> {
    const { status, start, whole } = await this.#http.send(request, signal);
    if (!whole && status >= 200 && status < 300)
      throw new Unavailable('the answer of the catalog is not whole');
    const document = documentOf(start, status);
    return { status, document, reason: this.#reasonOf(document) };
  }

  #reasonOf({ error }: Document): string {
    const message = isObject(error) && typeof error.message === 'string' ? error.message : '';
    const { catalog_token, catalog_client_secret } = this.#settings;
    const secrets = [catalog_token, catalog_client_secret, this.#token?.value];
    return secrets
      .reduce(
        (text: string, secret) => (secret === undefined ? text : text.replaceAll(secret, '***')),
        message,
      )
      .slice(0, REASON_LENGTH)
      .replace(/\p{C}/gu, ' ')
      .trim();
  }
}

/** The document of an answer; that of an error may be anything. */
function documentOf(bytes: Uint8Array, status: number): Document {
  const isSuccess = status >= 200 && status < 300;
  if (isSuccess && bytes.length === 0) return {};
  try {
    return parseObject(
      Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8'),
      parseExact,
    );
  } catch (error) {
    if (isSuccess) throw new Unavailable('the answer of the catalog cannot be understood', { cause: error });
    return {};
  }
}

/*
 * The metadata of a table as a catalog tells it, checked: files are written and removed by it. Ids of snapshots and sequence
 * numbers have up to 63 bits, so documents are parsed with the digits of their numbers.
 */

/** A column of the current schema. */
export interface Field {
  readonly id: number;
  readonly name: string;
  /** Undefined for a type that none of ours is. */
  readonly type: ColumnType | undefined;
  /** As the catalog tells it. */
  readonly json: Readonly<Record<string, unknown>>;
}

export interface PartitionField {
  readonly id: number;
  readonly source: number;
  readonly transform: string;
  readonly name: string;
}

export interface PartitionSpec {
  readonly id: number;
  readonly fields: readonly PartitionField[];
  /** Its fields as the catalog tells them. */
  readonly json: unknown;
}

export interface Snapshot {
  readonly id: bigint;
  readonly sequence: bigint;
  /** Epoch ms. */
  readonly at: number;
  readonly manifestList: string;
}

export interface TableMetadata {
  /** Of the format: tables of another one than `WRITTEN_VERSION` are described, but neither read nor written. */
  readonly version: number;
  readonly uuid: string;
  /** Without a `/` at its end. */
  readonly location: string;
  readonly schemaId: number;
  readonly schemaJson: Readonly<Record<string, unknown>>;
  readonly fields: readonly Field[];
  readonly lastColumnId: number;
  /** The current one first. */
  readonly specs: readonly PartitionSpec[];
  /** Epoch ms. */
  readonly updatedAt: number;
  readonly lastSequence: bigint;
  readonly current: Snapshot | undefined;
  /** Those that the answer names, by id. */
  readonly snapshots: ReadonlyMap<bigint, Snapshot>;
  /** Snapshots that branches and tags hold, by name. */
  readonly refs: ReadonlyMap<string, bigint>;
  readonly properties: Readonly<Record<string, string>>;
}

/** The type of a column as tables that we make have it. */
const TYPES: Readonly<Record<ColumnType, string>> = {
  boolean: 'boolean',
  bigint: 'long',
  numeric: `decimal(${DECIMAL.whole + DECIMAL.fraction}, ${DECIMAL.fraction})`,
  double: 'double',
  timestamp: 'timestamptz',
  text: 'string',
  json: 'string',
};
/** What says that the texts of a column are JSON. */
const JSON_DOC = 'JSON';

/** A column of this type, with what a schema says of it already. */
export function fieldWith(
  id: number,
  name: string,
  type: ColumnType,
  { doc, ...known }: Readonly<Record<string, unknown>> = {},
): Field {
  const text = doc === JSON_DOC ? undefined : doc;
  const said = type === 'json' ? JSON_DOC : text;
  const json = {
    ...known,
    id,
    name,
    required: known.required ?? false,
    type: TYPES[type],
    ...(said === undefined ? {} : { doc: said }),
  };
  return { id, name, type, json };
}

/** The type of a column. One of a narrower type that Iceberg widens in place counts as the wider one. */
function typeOf({ type, doc }: Readonly<Record<string, unknown>>): ColumnType | undefined {
  if (typeof type !== 'string') return undefined;
  const [, scale] = /^decimal\(\d+, ?(\d+)\)$/.exec(type) ?? [];
  if (scale !== undefined) return Number(scale) === DECIMAL.fraction ? 'numeric' : undefined;
  if (type === 'string') return doc === JSON_DOC ? 'json' : 'text';
  return OF_NAMES.get(type);
}

const OF_NAMES: ReadonlyMap<string, ColumnType> = new Map([
  ['boolean', 'boolean'],
  ['int', 'bigint'],
  ['long', 'bigint'],
  ['float', 'double'],
  ['double', 'double'],
  ['timestamptz', 'timestamp'],
]);

const MAX_FIELDS = 20_000;

/** Metadata as a catalog told it. Throws `WarehouseRefused` for a table that is not ours to write. */
export function tableMetadata(table: string, told: unknown): TableMetadata {
  const not = (what: string) => new WarehouseRefused(`the catalog tells of the table ${table} ${what}`);
  if (!isObject(told)) throw not('no metadata');
  const version = Number(told['format-version']);
  const metadata: Readonly<Record<string, unknown>> = version === 1 ? { ...ofVersion1(told), ...told } : told;
  const { location, properties, refs } = metadata;
  const uuid = metadata['table-uuid'];
  const schemaId = metadata['current-schema-id'];
  const specId = metadata['default-spec-id'];
  const lastColumnId = metadata['last-column-id'];
  const lastSequence = longOf(metadata['last-sequence-number']);
  if (
    typeof uuid !== 'string' ||
    typeof location !== 'string' ||
    typeof schemaId !== 'number' ||
    typeof specId !== 'number' ||
    typeof lastColumnId !== 'number' ||
    lastSequence === undefined
  )
    throw not('metadata that is not whole');
  const schemaJson = objectsIn(metadata.schemas).find((one) => one['schema-id'] === schemaId);
  if (schemaJson === undefined) throw not('no current schema');
  const fields = objectsIn(schemaJson.fields).map((json): Field => {
    const { id, name } = json;
    if (typeof id !== 'number' || typeof name !== 'string') throw not('a column without a name');
    return { id, name, type: typeOf(json), json };
  });
  if (fields.length > MAX_FIELDS) throw not('too many columns');
  const specs = objectsIn(metadata['partition-specs']).map((json): PartitionSpec => {
    const id = json['spec-id'];
    if (typeof id !== 'number') throw not('a partition without an id');
    return { id, fields: objectsIn(json.fields).map(partitionField), json: json.fields };
  });
  const snapshots = new Map<bigint, Snapshot>();
  for (const json of objectsIn(metadata.snapshots)) {
    const id = longOf(json['snapshot-id']);
    const manifestList = json['manifest-list'];
    if (id === undefined || typeof manifestList !== 'string') continue;
    const at = Number(longOf(json['timestamp-ms']) ?? 0n);
    snapshots.set(id, { id, at, manifestList, sequence: longOf(json['sequence-number']) ?? 0n });
  }
  const held = new Map<string, bigint>();
  for (const [name, ref] of Object.entries(isObject(refs) ? refs : {})) {
    const id = isObject(ref) ? longOf(ref['snapshot-id']) : undefined;
    if (id !== undefined) held.set(name, id);
  }
  const currentId = held.get(MAIN) ?? longOf(metadata['current-snapshot-id']);
  // -1 is what older catalogs tell of a table without a snapshot.
  const hasCurrent = currentId !== undefined && currentId !== -1n;
  const current = hasCurrent ? snapshots.get(currentId) : undefined;
  if (hasCurrent && current === undefined && version === WRITTEN_VERSION) throw not('no current snapshot');
  return {
    version,
    uuid,
    location: location.replace(/\/+$/, ''),
    schemaId,
    schemaJson,
    fields,
    lastColumnId,
    specs: specs.toSorted((one, other) => Number(other.id === specId) - Number(one.id === specId)),
    updatedAt: Number(longOf(metadata['last-updated-ms']) ?? 0n),
    lastSequence,
    current,
    snapshots,
    refs: held,
    properties: textsIn(properties),
  };
}

export const MAIN = 'main';
const WRITTEN_VERSION = 2;

/** Throws for a table whose files would not be understood. */
export function checkVersion(table: string, { version }: TableMetadata): void {
  if (version !== WRITTEN_VERSION)
    throw new WarehouseRefused(
      `the table ${table} has the format version ${version}: only ${WRITTEN_VERSION} is written`,
    );
}

/** What metadata of version 1 may lack. */
function ofVersion1({ schema }: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return {
    'table-uuid': '',
    'last-sequence-number': 0,
    'current-schema-id': 0,
    'default-spec-id': 0,
    schemas: [{ ...(isObject(schema) ? schema : {}), 'schema-id': 0 }],
  };
}

function partitionField(json: Readonly<Record<string, unknown>>): PartitionField {
  return {
    id: Number(json['field-id']),
    source: Number(json['source-id']),
    transform: String(json.transform),
    name: String(json.name),
  };
}

function objectsIn(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function textsIn(value: unknown): Readonly<Record<string, string>> {
  const entries = Object.entries(isObject(value) ? value : {});
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

/** A whole number of 63 bits, as `parseExact` gives it. */
export function longOf(value: unknown): bigint | undefined {
  // A number that is not exact as a double has the digits of its text.
  const digits = JSON.isRawJSON(value) ? value.rawJSON : typeof value === 'number' ? String(value) : '';
  return /^-?\d{1,19}$/.test(digits) ? BigInt(digits) : undefined;
}

/** A whole number of 63 bits as documents have it. */
export function longJson(value: bigint): unknown {
  return JSON.rawJSON(String(value));
}
