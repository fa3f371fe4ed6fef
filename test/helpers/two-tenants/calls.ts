import { type CredentialKind, type Operation, permissionOf } from '@tributary/core';
import type { RouteOptions } from 'fastify';
import { KINDS, type Kind, type Request, type Tenant } from './tenant.ts';

/** A place for an id in a call. A `name` in a body has a dot before a field of an inner object. */
export interface Slot {
  readonly location: 'path' | 'query' | 'header' | 'body';
  readonly name: string;
  readonly form: 'text' | 'list' | 'map' | 'maps' | 'object' | 'number';
  /** The kind of object that an id in this place refers to; undefined where the schema does not state it. */
  readonly kind: Kind | undefined;
}

/** An id of another tenant: the `index`-th of a kind. */
export interface Foreign {
  readonly kind: Kind;
  readonly index: number;
}

/**
 * One call of the caller with another tenant's ids in some slots; all other ids in it are the caller's own.
 */
export interface Plan {
  readonly route: RouteOptions;
  readonly credential: CredentialKind;
  readonly slots: readonly { readonly slot: Slot; readonly foreign: Foreign }[];
  /** Sets the header `X-Workspace-ID` too, where the path has a foreign workspace. */
  readonly headerFollows: boolean;
  /** Different in every plan, for names that must not collide. */
  readonly serial: number;
}

/** The ids in the slots: those of an existing tenant, or as many nonexistent ones. */
export interface Side {
  readonly name: string;
  readonly orgId: number;
  readonly ids: Readonly<Record<Kind, readonly string[]>>;
}

interface Schema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly examples?: readonly unknown[];
}

const operationOf = ({ config }: RouteOptions) => config?.operation as Operation;
const isOfProfiles = ({ url }: RouteOptions) => url.startsWith('/cdp/');

/**
 * Not attacked. An address is not an id: a caller who may invite it learns that it has an account. The
 * `subject` of an event selects by its hash the partition to read, for any value.
 */
const NO_IDS = /email$|^subject$/;

/** Every place of a route for an id, from its path and its schemas. */
export function slotsOf(route: RouteOptions): readonly Slot[] {
  const parameters = [...route.url.matchAll(/:([a-zA-Z]+)/g)].map(([, name = '']) => name);
  const queried = Object.entries((route.schema?.querystring as Schema | undefined)?.properties ?? {});
  const headers = isOfProfiles(route)
    ? [slot('header', 'orgid', 'number')]
    : parameters.includes('workspaceId')
      ? [slot('header', 'x-workspace-id', 'text')]
      : [];
  return [
    ...parameters.map((name) => slot('path', name, 'text')),
    ...queried.flatMap(([name, { enum: words }]) =>
      words === undefined && !NO_IDS.test(name) ? [slot('query', name, 'text')] : [],
    ),
    ...headers,
    ...(route.url.endsWith('/live') ? [slot('header', 'last-event-id', 'text')] : []),
    ...bodySlots(route.schema?.body as Schema | undefined),
  ];
}

function bodySlots(schema: Schema | undefined, above = ''): readonly Slot[] {
  return Object.entries(schema?.properties ?? {}).flatMap(([name, inner]): readonly Slot[] => {
    const path = `${above}${name}`;
    if (inner.properties !== undefined) return bodySlots(inner, `${path}.`);
    const form = formOf(name, inner);
    return form === undefined || NO_IDS.test(name) ? [] : [slot('body', path, form)];
  });
}

function formOf(
  name: string,
  { type, enum: words, items, additionalProperties: others }: Schema,
): Slot['form'] | undefined {
  if (words !== undefined) return undefined;
  switch (Array.isArray(type) ? type[0] : type) {
    case 'string':
      return 'text';
    case 'array':
      return items?.type === 'string' && items.enum === undefined ? 'list' : undefined;
    case 'object':
      return typeof others !== 'object' ? 'object' : others.type === 'array' ? 'maps' : 'map';
    case 'integer':
      return name === 'orgId' ? 'number' : undefined;
    default:
      return undefined;
  }
}

const KIND_OF: Readonly<Record<string, Kind>> = {
  'x-workspace-id': 'workspaceId',
  'last-event-id': 'messageId',
  actor: 'accountId',
  entity_id: 'sourceId',
  user_id: 'identity',
  userId: 'identity',
  anonymous_id: 'identity',
  ids: 'identity',
  search: 'identity',
  subject: 'identity',
};

function slot(location: Slot['location'], name: string, form: Slot['form']): Slot {
  const last = name.split('.').at(-1) ?? name;
  const camel = last.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return { location, name, form, kind: KIND_OF[last] ?? KINDS.find((kind) => kind === camel) };
}

/** The call of a plan, sent by `caller` with the ids of one side. */
export function requestOf(
  { route, credential, slots, headerFollows, serial }: Plan,
  caller: Tenant,
  side: Side,
): Request {
  const pathIds: Record<string, string> = {};
  const query = new URLSearchParams();
  const headers: Record<string, string> = { ...headersOf(route, credential, caller) };
  const fresh = `${side.name}-${serial}`;
  let body = route.schema?.body === undefined ? undefined : ownBody(route, caller, fresh);
  for (const { slot: at, foreign } of slots) {
    const id = idOf(side, foreign);
    if (at.location === 'path') pathIds[at.name] = id;
    else if (at.location === 'query') query.set(at.name, id);
    else if (at.location === 'header') headers[at.name] = at.form === 'number' ? String(side.orgId) : id;
    else body = withValueAt(body ?? {}, at.name.split('.'), valueIn(at, foreign.kind, id, side.orgId));
  }
  if (headerFollows && pathIds.workspaceId !== undefined) headers['x-workspace-id'] = pathIds.workspaceId;
  const path = route.url.replaceAll(/:([a-zA-Z]+)/g, (_, name: string) =>
    encodeURIComponent(pathIds[name] ?? ownParameter(name, caller)),
  );
  const text = query.toString();
  return {
    method: String(route.method),
    path: text === '' ? path : `${path}?${text}`,
    headers,
    ...(body === undefined ? {} : { body }),
  };
}

function idOf({ ids }: Side, { kind, index }: Foreign): string {
  const known = ids[kind];
  return known[index % Math.max(1, known.length)] ?? ids.workspaceId[0] ?? '';
}

function headersOf(route: RouteOptions, credential: CredentialKind, caller: Tenant): Record<string, string> {
  const token = caller.tokens[credential];
  if (isOfProfiles(route))
    return {
      ...(credential === 'client_key' ? { apikey: token } : { authorization: `Bearer ${token}` }),
      scopes: 'profile.write,profile.read,profile.delete',
      orgid: String(caller.orgId),
    };
  return { authorization: `Bearer ${token}`, 'x-workspace-id': caller.ids.workspaceId[0] ?? '' };
}

function ownParameter(name: string, caller: Tenant): string {
  if (name === 'type') return 'ndjson';
  if (name === 'version') return '1';
  if (name === 'writeKey') return caller.tokens.write_key;
  return caller.ids[name as Kind]?.[0] ?? '';
}

/** A valid body, about the caller's own objects. */
function ownBody(route: RouteOptions, caller: Tenant, fresh: string): Record<string, unknown> {
  const { examples, properties }: Schema = route.schema?.body ?? {};
  const body: Record<string, unknown> = { ...(examples?.[0] as object | undefined) };
  const own: Readonly<Record<string, unknown>> = {
    name: `own ${fresh}`,
    email: `${fresh}@example.com`,
    event_name: `Own ${fresh}`,
    orgId: caller.orgId,
    destination_id: caller.ids.destinationId[0],
    since: new Date(Date.now() - 3_600_000).toISOString(),
  };
  for (const [name, value] of Object.entries(own))
    if (name in body && name in (properties ?? {})) body[name] = value;
  if (operationOf(route) === 'replays.create') delete body.until;
  if (operationOf(route).startsWith('organizations.')) delete body.notification_email;
  return body;
}

/** Programs that use an id, where a text contains one. */
const PROGRAMS: Readonly<Record<string, (id: string) => string>> = {
  source_code: (id) => `function transform(event) { return { ...event, user_id: '${id}' }; }`,
  filter: (id) => `event.user_id == '${id}'`,
};

function valueIn({ form, name }: Slot, kind: Kind, id: string, orgId: number): unknown {
  const type = kind === 'ucid' ? 'ucid' : 'AdId';
  switch (form) {
    case 'list':
      return [id];
    case 'map':
      return { [type]: id };
    case 'maps':
      return { [type]: [id] };
    case 'object':
      return { id };
    case 'number':
      return orgId;
    case 'text':
      return PROGRAMS[name]?.(id) ?? id;
  }
}

function withValueAt(
  body: Record<string, unknown>,
  [name = '', ...rest]: readonly string[],
  value: unknown,
): Record<string, unknown> {
  if (rest.length === 0) return { ...body, [name]: value };
  return { ...body, [name]: withValueAt((body[name] ?? {}) as Record<string, unknown>, rest, value) };
}

/** The credentials that a route accepts; a public one needs none and is called with an ID token. */
export function credentialsOf(route: RouteOptions): readonly CredentialKind[] {
  const { credentials } = permissionOf(operationOf(route));
  return credentials.length === 0 ? ['id_token'] : credentials;
}
