import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { isObject } from '@tributary/core';
import type { RouteOptions } from 'fastify';
import { type Plan, requestOf, type Side } from './calls.ts';
import { type Exchange, KINDS, type Kind, type Request, type Response, type Tenant } from './tenant.ts';

/**
 * One tenant calls with the ids of another; its twin makes the same calls with nonexistent ids. Both have the same
 * objects and the same past, so nothing but those ids can make their answers differ.
 */
export interface Attack {
  /** The fault in the answers to a call; undefined for a call that reveals nothing. */
  faultOf(plan: Plan): Promise<string | undefined>;
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
/** Above any wait that a call of another tenant may see; a call that takes longer is a fault. */
const MAX_CALL_MS = 10_000;
/** Above the time in which the caller's own events pass all stages. */
const SETTLED_WITHIN_MS = 30_000;

interface Fault {
  readonly kind: 'leak' | 'failure' | 'difference';
  readonly text: string;
}

/** Two tenants with objects of the same names. */
export interface Twins {
  readonly caller: Tenant;
  readonly twin: Tenant;
}

export function openAttack(exchange: Exchange, { caller, twin }: Twins, victim: Tenant): Attack {
  const real: Side = { name: 'real', orgId: victim.orgId, ids: victim.ids };
  const ghost = ghostOf(victim);
  const secrets = [
    victim.canary,
    ...KINDS.flatMap((kind) => victim.ids[kind]),
    ...Object.values(victim.tokens),
  ];
  const normalised = normaliserOf([real, ghost], [caller, twin]);
  /** All data that the caller sent so far: answers may contain it, as its own. */
  let sent = '';

  async function answerTo(plan: Plan, by: Tenant, side: Side): Promise<readonly [Request, Response]> {
    const request = requestOf(plan, by, side);
    const began = performance.now();
    const response = await exchange(request);
    if (performance.now() - began > MAX_CALL_MS)
      throw new Error(`${request.method} ${request.path} took too long`);
    if (response.status === 201) await takeBack(by, request, response);
    return [request, response];
  }

  /** Removes an object that a call created, so that no quota refuses later calls. */
  async function takeBack(by: Tenant, { method, path }: Request, { text }: Response): Promise<void> {
    const { id } = JSON.parse(text) as { readonly id?: string };
    if (method !== 'POST' || id === undefined) return;
    const headers = {
      authorization: `Bearer ${by.tokens.id_token}`,
      'x-workspace-id': path === '/api/v1/workspaces' ? id : (by.ids.workspaceId[0] ?? ''),
    };
    const made = `${path.split('?')[0]}/${id}`;
    // Few replays run at a time.
    if (path.endsWith('/replays')) await exchange({ method: 'POST', path: `${made}/cancel`, headers });
    else await exchange({ method: 'DELETE', path: made, headers });
  }

  async function faultOfOne(plan: Plan): Promise<Fault | undefined> {
    const [request, answer] = await answerTo(plan, caller, real);
    const [, other] = await answerTo(plan, twin, ghost);
    sent += decodeURIComponent(JSON.stringify(request));
    const shown = answer.text + JSON.stringify(answer.headers);
    const leaked = secrets.filter((secret) => shown.includes(secret) && !sent.includes(secret));
    const said = `${request.method} ${request.path} ${JSON.stringify(request.body)} as ${plan.credential}`;
    if (leaked.length > 0)
      return {
        kind: 'leak',
        text: `${said} reveals ${leaked.join(', ')}: ${answer.status} ${answer.text}`,
      };
    if (answer.status >= 500) return { kind: 'failure', text: `${said} is ${answer.status}: ${answer.text}` };
    const [left, right] = [normalised(answer), normalised(other)];
    if (left === right) return undefined;
    return {
      kind: 'difference',
      text: `${said} tells that an id is known:\n${left}\nand of an unknown one:\n${right}`,
    };
  }

  return {
    async faultOf(plan) {
      // A read shows the events of the callers on their way through the stages. A difference that the id makes is
      // still there once they have arrived.
      const end = performance.now() + SETTLED_WITHIN_MS;
      for (;;) {
        const fault = await faultOfOne(plan);
        const mayEnd = fault?.kind === 'difference' && isRead(plan);
        if (!mayEnd || performance.now() > end) return fault?.text;
        await delay(100);
      }
    },
  };
}

/** POSTs of these names change nothing. */
const READS = /\/(dry-run|infer|_search|comparison)$/;

function isRead({ route }: Plan): boolean {
  return route.method === 'GET' || READS.test(route.url);
}

/** As many ids as a tenant has, of the same forms, all nonexistent. */
function ghostOf({ ids }: Tenant): Side {
  const known = new Map<string, string>();
  const twinOf = (id: string): string => {
    const twin = known.get(id) ?? makeTwin(id);
    known.set(id, twin);
    return twin;
  };
  const ghosts = { ...ids };
  for (const kind of KINDS) ghosts[kind] = ids[kind].map(twinOf);
  return { name: 'none', orgId: 987_654_321, ids: ghosts };

  /** Keeps the time in a UUID: it determines the searched part of a log, and the position of a cursor. */
  function makeTwin(id: string): string {
    const random = (length: number) => randomBytes(length).toString('hex').slice(0, length);
    if (id.match(UUID)?.[0] === id) return `${id.slice(0, 24)}${random(12)}`;
    const inside = Buffer.from(id, 'base64url').toString();
    if (inside.match(UUID) !== null)
      return Buffer.from(inside.replaceAll(UUID, twinOf)).toString('base64url');
    return `${random(6)}${id.slice(6)}`.slice(0, id.length);
  }
}

/** Headers with values that depend on the time, or follow from the body. */
const OF_THE_MOMENT = ['date', 'x-request-id', 'content-length', 'etag', 'link'];

/** Fields that count up, or depend on the time, with every call; `records` and `bytes` of the whole log were read. */
const NUMBERS =
  /"(version|org_id|[a-z0-9_]+_(ms|per_second)|updated_ts|created_ts|_ts|partition|offset|index|entries|records|bytes)":"?[\d.]+"?/g;

/**
 * An answer as text, without the parts that differ between any two calls, and with each id of a side or a caller
 * replaced by its place.
 */
function normaliserOf(
  sides: readonly Pick<Side, 'ids'>[],
  callers: readonly Tenant[],
): (response: Response) => string {
  const placesOf = ({ ids }: Pick<Side, 'ids'>, whose: string) =>
    KINDS.flatMap((kind) =>
      ids[kind].map((id, at): readonly [string, string] => [id, `<${whose}${kind} ${at}>`]),
    );
  const places = [
    ...sides.flatMap((side) => placesOf(side, '')),
    ...callers.flatMap((caller) => placesOf(caller, 'own ')),
  ].toSorted(([left], [right]) => right.length - left.length);
  return ({ status, headers, text }) => {
    let shown = text;
    for (const [id, place] of places) shown = shown.replaceAll(id, place);
    shown = shown
      .replaceAll(/\b(real|none)-(?=\d)/g, '')
      .replaceAll(UUID, '<uuid>')
      .replaceAll(/[\w.-]+@example\.com/g, '<email>')
      .replaceAll(/\d{4}-\d{2}-\d{2}T[\d:.]+Z/g, '<time>')
      .replaceAll(/trb_[A-Za-z0-9_]+|whsec_[A-Za-z0-9+/=]+/g, '<key>')
      .replaceAll(NUMBERS, '"$1":<number>');
    const told = Object.entries(headers)
      .map(([name, value]) => `${name}: ${OF_THE_MOMENT.includes(name) ? '...' : value}`)
      .toSorted();
    return [status, ...told, shown].join('\n');
  };
}

/** All that a tenant can read of itself, as text: it must not change through another tenant's calls. */
export async function everythingOf(
  exchange: Exchange,
  routes: readonly RouteOptions[],
  tenant: Tenant,
): Promise<Readonly<Record<string, unknown>>> {
  const seen: Record<string, unknown> = {};
  const headers = {
    authorization: `Bearer ${tenant.tokens.id_token}`,
    'x-workspace-id': tenant.ids.workspaceId[0] ?? '',
  };
  for (const { method, url } of routes) {
    if (
      method !== 'GET' ||
      url.endsWith('/live') ||
      OF_NOW.some((end) => url.endsWith(end)) ||
      url.includes('riteKey') ||
      url.includes('sourceConfig')
    )
      continue;
    for (const path of pathsOf(url, tenant)) {
      const { status, text } = await exchange({ method: 'GET', path, headers });
      seen[path] = [status, withoutUses(JSON.parse(text))];
    }
  }
  const search = { AdId: tenant.ids.identity, ucid: tenant.ids.ucid };
  const { text } = await exchange({
    method: 'POST',
    path: '/cdp/v1/users/_search',
    headers: { apikey: tenant.tokens.client_key, scopes: 'profile.read' },
    body: { orgId: tenant.orgId, regions: ['eu'], search },
  });
  seen.profiles = JSON.parse(text);
  return seen;
}

/** The paths of a route for every object of a tenant. */
function pathsOf(url: string, tenant: Tenant): readonly string[] {
  const [, name] = /:([a-zA-Z]+)/.exec(url) ?? [];
  if (name === undefined) return [url];
  const values = name === 'type' ? ['ndjson'] : name === 'version' ? ['1'] : tenant.ids[name as Kind];
  return values.flatMap((value) => pathsOf(url.replace(`:${name}`, value), tenant));
}

/**
 * The last use of a key is recorded a moment later; the amount read to find an event depends on the log, not
 * on a tenant.
 */
const NOT_OF_THE_TENANT = ['last_used_at', 'looked'];
/** Answers that name the time they were asked at: health, samples of events, ranges up to now, and bytes of the current hour. */
const OF_NOW = [
  '/health',
  '/health/history',
  '/recent-events',
  '/funnel',
  '/storage',
  '/tracking-plan/comparison',
];

function withoutUses(value: unknown): unknown {
  const text = JSON.stringify(value, (name, inner) =>
    NOT_OF_THE_TENANT.includes(name) ? undefined : unsummed(inner),
  );
  return JSON.parse(text);
}

/** An entry of the audit log for the calls of a minute, at whose end all but their number changes; else the value. */
function unsummed(value: unknown): unknown {
  if (!isObject(value) || !isObject(value.after) || !('until' in value.after)) return value;
  return { ...value, entity: undefined, after: value.after.calls };
}
