import { isDeepStrictEqual } from 'node:util';
import {
  type Answer,
  type DocumentedOperation,
  isReference,
  METHODS,
  type Method,
  type OpenApiDocument,
  type Parameter,
  type Path,
} from './document.ts';
import { HEADERS, headerParameter } from './headers.ts';
import { REFUSALS, refusalResponses, refusalsOf } from './refusals.ts';

/** One operation and where it is. */
interface Call {
  readonly path: string;
  readonly method: Method;
  readonly operation: DocumentedOperation;
  /** It changes something whose version it may name. */
  readonly takesVersion: boolean;
  /** It answers with a resource that has a version. */
  readonly showsVersion: boolean;
}

/**
 * Completes what was collected of the routes by what holds of all of them alike: the headers of requests and answers,
 * the ways to be refused, and shared schemas under their names. What a route says itself stays as it is.
 */
export function completeDocument(document: object): OpenApiDocument {
  const collected = document as OpenApiDocument;
  const paths = sorted(collected.paths, (item, path) => completePath(path, item, collected.paths));
  const schemas: Record<string, unknown> = {};
  const shared = shareTitled({ paths, responses: refusalResponses() }, schemas) as Pick<
    OpenApiDocument,
    'paths'
  > & { responses: Readonly<Record<string, Answer>> };
  return {
    ...collected,
    tags: tagsOf(paths).map((name) => ({ name })),
    paths: shared.paths,
    components: {
      ...collected.components,
      schemas: sorted(schemas, (schema) => schema),
      responses: shared.responses,
      headers: HEADERS,
    },
  };
}

function sorted<Value, Made>(
  record: Readonly<Record<string, Value>>,
  make: (value: Value, key: string) => Made,
): Record<string, Made> {
  const entries = Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, value]) => [key, make(value, key)]));
}

function tagsOf(paths: Readonly<Record<string, Path>>): readonly string[] {
  const all = Object.values(paths).flatMap((path) => METHODS.flatMap((method) => path[method]?.tags ?? []));
  return [...new Set(all)].sort();
}

/**
 * What can be replaced has a version, and shows it wherever it is answered. A call below it that answers with it
 * replaces it, too.
 */
function completePath(path: string, item: Path, paths: Readonly<Record<string, Path>>): Path {
  const isVersioned = item.put !== undefined;
  const above = titleOf(paths[path.slice(0, path.lastIndexOf('/'))]?.put);
  const replacesAbove = above !== undefined && titleOf(item.post) === above;
  const makesVersioned = Object.keys(paths).some(
    (other) => /^\/\{\w+\}$/.test(other.replace(path, '')) && paths[other]?.put !== undefined,
  );
  return Object.fromEntries(
    METHODS.flatMap((method) => {
      const operation = item[method];
      if (operation === undefined) return [];
      const takesVersion =
        method === 'post' ? replacesAbove : isVersioned && (method === 'put' || method === 'delete');
      const showsVersion =
        method === 'post' ? makesVersioned || replacesAbove : isVersioned && method !== 'delete';
      return [[method, completeOperation({ path, method, operation, takesVersion, showsVersion })]];
    }),
  );
}

/** The name of what an operation answers with 200. */
function titleOf(operation: DocumentedOperation | undefined): string | undefined {
  const answer = operation?.responses[200];
  if (answer === undefined || isReference(answer)) return undefined;
  const { title } = (answer.content?.['application/json']?.schema ?? {}) as { readonly title?: string };
  return title;
}

function completeOperation(call: Call): DocumentedOperation {
  const { operation } = call;
  const parameters = [...(operation.parameters ?? []), ...headersOf(call)];
  return {
    ...operation,
    ...(parameters.length > 0 && { parameters }),
    ...bodyOf(operation),
    responses: { ...ownAnswersOf(call), ...refusedAs(call) },
  };
}

const isOfWriteKeys = ({ security = [] }: DocumentedOperation) => security.every((one) => 'writeKey' in one);

/** The headers a call takes beside its credential. */
function headersOf({ path, operation, takesVersion }: Call): readonly Parameter[] {
  const inWorkspace = path.startsWith('/api/v1/workspaces/{workspaceId}');
  const isOfProfiles = path.startsWith('/cdp/');
  return [
    ...(inWorkspace ? [headerParameter('X-Workspace-ID', !isOfWriteKeys(operation))] : []),
    ...(isOfProfiles ? [headerParameter('scopes', true), headerParameter('orgId', false)] : []),
    ...(takesVersion ? [headerParameter('If-Match', false)] : []),
    ...(isStream(operation) ? [headerParameter('Last-Event-ID', false)] : []),
  ];
}

function isStream({ responses }: DocumentedOperation): boolean {
  return Object.values(responses).some(
    (answer) => !isReference(answer) && answer.content?.['text/event-stream'] !== undefined,
  );
}

/** A body that may be `null` may be left out. */
function bodyOf({ requestBody }: DocumentedOperation): Pick<DocumentedOperation, 'requestBody'> {
  if (requestBody === undefined) return {};
  const { type } = (requestBody.content['application/json']?.schema ?? {}) as { type?: unknown };
  return { requestBody: { ...requestBody, required: !(Array.isArray(type) && type.includes('null')) } };
}

const SUCCESSES: Readonly<Record<string, string>> = {
  200: 'Done.',
  201: 'Made: the answer is the new resource.',
  202: 'Taken: it is durable.',
};

/** What `@fastify/swagger` writes where a schema has no description. */
const NO_DESCRIPTION = 'Default Response';

function ownAnswersOf(call: Call): DocumentedOperation['responses'] {
  return Object.fromEntries(
    Object.entries(call.operation.responses).map(([status, answer]) => [
      status,
      isReference(answer) ? answer : completeAnswer(answer, status, call),
    ]),
  );
}

const ETAG = { $ref: '#/components/headers/ETag' };

function completeAnswer(answer: Answer, status: string, { operation, method, showsVersion }: Call): Answer {
  const succeeds = status.startsWith('2');
  const refusal = REFUSALS[Number(status)];
  const takes = (parameter: string) => operation.parameters?.some(({ name }) => name === parameter) === true;
  const isPaged = method === 'get' && takes('cursor');
  // A dry run makes no version.
  const etag = takes('dry_run') && status === '200' ? { ...HEADERS.ETag, required: false } : ETAG;
  const described = answer.description === NO_DESCRIPTION;
  return {
    ...answer,
    description: described ? (SUCCESSES[status] ?? refusal?.description ?? status) : answer.description,
    headers: {
      'X-Request-Id': { $ref: '#/components/headers/RequestId' },
      ...answer.headers,
      ...(succeeds && showsVersion && { ETag: etag }),
      ...(succeeds && isPaged && { Link: { $ref: '#/components/headers/Link' } }),
      ...(refusal?.retryAfter && { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } }),
    },
  };
}

/** Parts of a path that are 401 or 403 when they are wrong, not 404. */
const SCOPES_AND_KEYS: ReadonlySet<string> = new Set(['workspaceId', 'organizationId', 'writeKey']);

function refusedAs({ path, method, operation, takesVersion }: Call): DocumentedOperation['responses'] {
  const ids = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  const statuses = refusalsOf({
    method,
    namesResource: ids.some((name = '') => !SCOPES_AND_KEYS.has(name)),
    isOfCatalog: path.startsWith('/api/') && !isOfWriteKeys(operation),
    takesVersion,
    isPublic: operation.security?.length === 0,
  });
  return Object.fromEntries(
    statuses
      .filter((status) => operation.responses[status] === undefined)
      .map((status) => [status, { $ref: `#/components/responses/${REFUSALS[status]?.name}` }]),
  );
}

type Value = Readonly<Record<string, unknown>>;

/**
 * Replaces each schema that has a `title` by a reference to a component of that name, which `components` then holds.
 * One name stands for one schema: two that differ are a mistake of the routes.
 */
export function shareTitled(value: unknown, components: Record<string, unknown>): unknown {
  if (Array.isArray(value)) return value.map((item) => shareTitled(item, components));
  if (typeof value !== 'object' || value === null) return value;
  const shared = Object.fromEntries(
    Object.entries(value as Value).map(([key, member]) => [
      key,
      // Examples are data, in which a title is a title.
      key === 'example' || key === 'examples' ? member : shareTitled(member, components),
    ]),
  );
  const { title } = shared;
  if (typeof title !== 'string') return shared;
  const known = components[title];
  if (known !== undefined && !isDeepStrictEqual(known, shared))
    throw new Error(`two schemas of the API are called ${title}`);
  components[title] = shared;
  return { $ref: `#/components/schemas/${title}` };
}
