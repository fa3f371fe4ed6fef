import { CLIENT_KEY_SCOPES, type ClientKeyScope, type ProfileRecord } from '@tributary/core';
import type { FastifyInstance } from 'fastify';

export interface ProfileAnswer<Body = unknown> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

export interface Deletion {
  readonly ucids: readonly string[];
  readonly deletedProfiles: readonly string[];
  readonly profilesNotFound: readonly string[];
}

/** Sends a call to a gateway. */
export type Send = (
  path: string,
  headers: Readonly<Record<string, string>>,
  body: string,
) => Promise<ProfileAnswer>;

/** Over HTTP. */
export function sendTo(url: string): Send {
  return async (path, headers, body) => {
    const response = await fetch(url + path, { method: 'POST', headers, body });
    return { status: response.status, headers: response.headers, body: JSON.parse(await response.text()) };
  };
}

/** To a gateway in this process. */
export function sendInto(app: FastifyInstance): Send {
  return async (url, headers, payload) => {
    const response = await app.inject({ method: 'POST', url, headers, payload });
    return {
      status: response.statusCode,
      headers: new Headers(response.headers as Record<string, string>),
      body: response.json(),
    };
  };
}

const ALL = CLIENT_KEY_SCOPES.join(',');

/** Calls the profile API, with one credential and for one organization. */
export class ProfileClient {
  readonly #send: Send;
  readonly headers: Readonly<Record<string, string>>;
  readonly orgId: number;

  constructor(send: Send, orgId: number, headers: Readonly<Record<string, string>>) {
    this.#send = send;
    this.orgId = orgId;
    this.headers = headers;
  }

  withKey(apikey: string, scopes = ALL): ProfileClient {
    return new ProfileClient(this.#send, this.orgId, { apikey, scopes });
  }

  withToken(token: string, scopes = ALL): ProfileClient {
    const headers = { authorization: `Bearer ${token}`, scopes, orgId: String(this.orgId) };
    return new ProfileClient(this.#send, this.orgId, headers);
  }

  /** The same credential for another organization, by its id. */
  naming(orgId: number): ProfileClient {
    return new ProfileClient(this.#send, orgId, this.headers);
  }

  /** Posts below `/cdp/v1/users`; a body without an `orgId` gets the client's. '' leaves a header out. */
  call<Body = { readonly error: string }>(
    path: string,
    body: object,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<ProfileAnswer<Body>> {
    const sent = Object.entries({ 'content-type': 'application/json', ...this.headers, ...headers });
    return this.#send(
      `/cdp/v1/users${path}`,
      Object.fromEntries(sent.filter(([, value]) => value !== '')),
      JSON.stringify({ orgId: this.orgId, ...body }),
    ) as Promise<ProfileAnswer<Body>>;
  }

  /** A write that must succeed, in region `eu` unless the fields override it. */
  async write(ids: Readonly<Record<string, string>>, fields: object = {}): Promise<ProfileRecord> {
    const [record, ...others] = await this.#ok<readonly ProfileRecord[]>('', {
      region: 'eu',
      ids,
      ...fields,
    });
    if (record === undefined || others.length > 0) throw new Error('a write answers one record');
    return record;
  }

  search(
    search: Readonly<Record<string, readonly string[]>>,
    regions: readonly string[] = ['eu'],
  ): Promise<readonly ProfileRecord[]> {
    return this.#ok('/_search', { regions, search });
  }

  delete(ids: Readonly<Record<string, readonly string[]>>, fields: object = {}): Promise<Deletion> {
    return this.#ok('/_delete', { region: 'eu', ids, ...fields });
  }

  async #ok<Body>(path: string, body: object): Promise<Body> {
    const answer = await this.call<Body>(path, body);
    if (answer.status !== 200)
      throw new Error(`${path} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  }
}

/** A valid call of each operation, by the scope it needs, without an effect on other tests. */
export const PROFILE_CALLS: Readonly<Record<ClientKeyScope, readonly [path: string, body: object]>> = {
  'profile.write': ['', { region: 'eu', ids: { AdId: 'x' } }],
  'profile.read': ['/_search', { regions: ['eu'], search: { AdId: ['x'] } }],
  'profile.delete': ['/_delete', { region: 'eu', ids: { AdId: ['x'] } }],
};

interface Asks {
  ok<T>(method: string, path: string, body?: unknown): Promise<T>;
}

export interface ProfileOrganization {
  readonly id: string;
  readonly orgId: number;
  /** A client key with all scopes. */
  readonly key: string;
  readonly keyId: string;
  readonly client: ProfileClient;
}

/** The profiles of the workspace's organization, which gets these regions, by a new client key. */
export async function openProfiles(
  owner: Asks,
  workspaceId: string | undefined,
  send: Send,
  regions: readonly string[] = ['eu', 'us'],
): Promise<ProfileOrganization> {
  const { organization_id: id } = await owner.ok<{ organization_id: string }>(
    'GET',
    `/workspaces/${workspaceId}`,
  );
  const { org_id: orgId, name } = await owner.ok<{ org_id: number; name: string }>(
    'GET',
    `/organizations/${id}`,
  );
  await owner.ok('PUT', `/organizations/${id}`, { name, regions });
  const made = await makeClientKey(owner, id, CLIENT_KEY_SCOPES);
  const client = new ProfileClient(send, orgId, {}).withKey(made.key);
  return { id, orgId, key: made.key, keyId: made.id, client };
}

export function makeClientKey(
  owner: Asks,
  organizationId: string,
  scopes: readonly string[],
): Promise<{ readonly id: string; readonly key: string }> {
  return owner.ok('POST', `/organizations/${organizationId}/client-keys`, { name: 'client', scopes });
}
