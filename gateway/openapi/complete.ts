import { isDeepStrictEqual } from 'node:util';
import {
  type Answer,
  type DocumentedOperation,
  isReference,
  METHODS,
  type Media,
  type Method,
  type OpenApiDocument,
  type Parameter,
  type Path,
} from './document.ts';
import { exampleOf } from './examples.ts';
import { groupsOf, inReadingOrder } from './groups.ts';
import { HEADERS, headerParameter } from './headers.ts';
import { REFUSALS, refusalResponses, refusalsOf } from './refusals.ts';

/** An operation and its path in the document. */
interface OperationWithPath {
  readonly path: string;
  readonly method: Method;
  readonly operation: DocumentedOperation;
  /** The operation accepts `If-Match`. */
  readonly takesVersion: boolean;
  /** The response has an `ETag`. */
  readonly showsVersion: boolean;
}

/**
 * Completes the collected document by what all routes have in common: headers of requests and responses, error responses,
 * and schemas with a title as components. A route's own statements take precedence.
 */
export function completeDocument(document: object): OpenApiDocument {
  const collected = document as OpenApiDocument;
  const paths = Object.fromEntries(
    Object.entries(collected.paths)
      .map(([path, item]) => ({ path, item, tag: tagsIn(item)[0] ?? '' }))
      .sort(inReadingOrder)
      .map(({ path, item }) => [path, completePath(path, item, collected.paths)]),
  );
  const schemas: Record<string, unknown> = {};
  const shared = shareTitled({ paths, responses: refusalResponses() }, schemas) as Pick<
    OpenApiDocument,
    'paths'
  > & { responses: Readonly<Record<string, Answer>> };
  return {
    ...collected,
    tags: groupsOf(Object.values(paths).flatMap(tagsIn)),
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

function tagsIn(path: Path): readonly string[] {
  return METHODS.flatMap((method) => path[method]?.tags ?? []);
}

/**
 * A resource with a `PUT` has a version, which every response with the resource shows. A `POST` below the resource that
 * answers with it replaces it as well.
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
      const takesVersion = method === 'post' ? replacesAbove : isVersioned && method !== 'get';
      const showsVersion =
        method === 'post' ? makesVersioned || replacesAbove : isVersioned && method !== 'delete';
      return [[method, completeOperation({ path, method, operation, takesVersion, showsVersion })]];
    }),
  );
}

/** The title of the schema of the 200 response. */
function titleOf(operation: DocumentedOperation | undefined): string | undefined {
  const answer = operation?.responses[200];
  if (answer === undefined || isReference(answer)) return undefined;
  const { title } = (answer.content?.['application/json']?.schema ?? {}) as { readonly title?: string };
  return title;
}

function completeOperation(call: OperationWithPath): DocumentedOperation {
  const { operation } = call;
  const parameters = [...(operation.parameters ?? []).map(filledIn), ...headersOf(call)];
  return {
    ...operation,
    ...(parameters.length > 0 && { parameters }),
    ...bodyOf(operation),
    responses: { ...ownAnswersOf(call), ...refusedAs(call) },
  };
}

/** A required parameter of a query with an example, which the reference page fills in. */
function filledIn(parameter: Parameter): Parameter {
  const { in: location, name, required, schema } = parameter;
  return location === 'query' && required
    ? { ...parameter, example: exampleOf(schema, name, 'query') }
    : parameter;
}

const isOfWriteKeys = ({ security = [] }: DocumentedOperation) => security.every((one) => 'writeKey' in one);

/** The request headers beside the credential. */
function headersOf({ path, operation, takesVersion }: OperationWithPath): readonly Parameter[] {
  const inWorkspace = path.startsWith('/api/v1/workspaces/{workspaceId}');
  const isOfProfiles = path.startsWith('/cdp/');
  return [
    ...(inWorkspace ? [headerParameter('X-Workspace-ID', !isOfWriteKeys(operation))] : []),
    ...(isOfProfiles
      ? [
          { ...headerParameter('scopes', true), example: operation['x-scope'] },
          { ...headerParameter('orgId', false), example: 1 },
        ]
      : []),
    ...(takesVersion ? [headerParameter('If-Match', false)] : []),
    ...(isStream(operation) ? [headerParameter('Last-Event-ID', false)] : []),
  ];
}

function isStream({ responses }: DocumentedOperation): boolean {
  return Object.values(responses).some(
    (answer) => !isReference(answer) && answer.content?.['text/event-stream'] !== undefined,
  );
}

/** A body that may be `null` is optional. */
function bodyOf({ requestBody }: DocumentedOperation): Pick<DocumentedOperation, 'requestBody'> {
  if (requestBody === undefined) return {};
  const { type } = (requestBody.content['application/json']?.schema ?? {}) as { type?: unknown };
  const content = withExamples(requestBody.content);
  return {
    requestBody: { ...requestBody, content, required: !(Array.isArray(type) && type.includes('null')) },
  };
}

/** Each body with its own example, else with one of its schema. `error`: that of a refusal. */
function withExamples(
  content: Readonly<Record<string, Media>>,
  error?: string,
): Readonly<Record<string, Media>> {
  return Object.fromEntries(
    Object.entries(content).map(([type, media]) => [
      type,
      media.example === undefined ? { ...media, example: exampleWith(media.schema, error) } : media,
    ]),
  );
}

function exampleWith(schema: unknown, error: string | undefined): unknown {
  const example = exampleOf(schema);
  return error === undefined ? example : { ...(example as object), error };
}

const SUCCESSES: Readonly<Record<string, string>> = {
  200: 'Done.',
  201: 'Made: the answer is the new resource.',
  202: 'Taken: it is durable.',
};

/** The placeholder of `@fastify/swagger` for a missing description. */
const NO_DESCRIPTION = 'Default Response';

function ownAnswersOf(call: OperationWithPath): DocumentedOperation['responses'] {
  return Object.fromEntries(
    Object.entries(call.operation.responses).map(([status, answer]) => [
      status,
      isReference(answer) ? answer : completeAnswer(answer, status, call),
    ]),
  );
}

const ETAG = { $ref: '#/components/headers/ETag' };

function completeAnswer(
  answer: Answer,
  status: string,
  { operation, method, showsVersion }: OperationWithPath,
): Answer {
  const succeeds = status.startsWith('2');
  const refusal = REFUSALS[Number(status)];
  const takes = (parameter: string) => operation.parameters?.some(({ name }) => name === parameter) === true;
  const isPaged = method === 'get' && takes('cursor');
  // A dry run creates no version.
  const etag = takes('dry_run') && status === '200' ? { ...HEADERS.ETag, required: false } : ETAG;
  const described = answer.description === NO_DESCRIPTION;
  return {
    ...answer,
    ...(answer.content && { content: withExamples(answer.content, refusal?.error) }),
    description: described ? (SUCCESSES[status] ?? refusal?.description ?? status) : answer.description,
    headers: {
      'X-Request-Id': { $ref: '#/components/headers/RequestId' },
      ...answer.headers,
      ...(succeeds && showsVersion && { ETag: etag }),
      ...(succeeds && isPaged && { Link: { $ref: '#/components/headers/Link' } }),
      ...(succeeds && takes('count') && { 'X-Total-Count': { $ref: '#/components/headers/TotalCount' } }),
      ...(refusal?.retryAfter && { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } }),
    },
  };
}

/** Path parameters that are answered with 401 or 403 instead of 404 when they are wrong. */
const SCOPES_AND_KEYS: ReadonlySet<string> = new Set(['workspaceId', 'organizationId', 'writeKey']);

function refusedAs({
  path,
  method,
  operation,
  takesVersion,
}: OperationWithPath): DocumentedOperation['responses'] {
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
 * Replaces each schema that has a `title` by a reference to a component of that name, which is added to `components`.
 * Throws when two different schemas have the same title.
 */
export function shareTitled(value: unknown, components: Record<string, unknown>): unknown {
  if (Array.isArray(value)) return value.map((item) => shareTitled(item, components));
  if (typeof value !== 'object' || value === null) return value;
  const shared = Object.fromEntries(
    Object.entries(value as Value).map(([key, member]) => [
      key,
      // Examples are data; a `title` in them is not a schema title.
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
