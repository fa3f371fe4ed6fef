import { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  distinctIdentities,
  EventLoopYielder,
  type Identity,
  type IdentityReading,
  InvalidInput,
  isFoundBy,
  isUuid,
  type Profile,
  type ProfileSearch,
  type ProfileStore,
  recordOf,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import { invalidRequest, notFound } from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/error-handler.ts';
import { closed, operation } from '../../resources/schemas.ts';
import {
  countOf,
  nameFault,
  orgId,
  parseValue,
  profileRecord,
  profileRecords,
  regions,
  ucid,
  valuesByType,
  valuesOf,
  withSpellings,
} from './bodies.ts';
import { namesOf, type ProfileCallOptions, regionsOf } from './calls.ts';

/** Values of one search, at most, of all types together. */
export const MAX_SEARCHED = 1_000;

const searchBody = closed(
  { orgId, regions, search: valuesByType },
  {
    title: 'ProfileSearch',
    examples: [{ orgId: 1, regions: ['eu'], search: { email: ['ada@example.com'] } }],
  },
);

/** The records of a search, which are serialised before they are sent. */
const foundRecords = Type.Unsafe<unknown>(profileRecords);
const foundRecord = Type.Unsafe<unknown>(profileRecord);

/** `POST /cdp/v1/users/_search` and `GET /cdp/v1/users/:ucid`. */
export const searchRoute: FastifyPluginAsyncTypebox<ProfileCallOptions> = async (app, { calls }) => {
  const { profiles } = calls.dependencies;

  app.post(
    '/users/_search',
    operation('profiles.search', 'searchProfiles', 'Search profiles by their identities', {
      body: searchBody,
      response: { 200: foundRecords },
    }),
    async (request, reply) => {
      const { regions, spellingsBeyond, ...search } = readSearch(
        request.body,
        calls.readingFor(request.body),
      );
      const { organization } = calls.admit(request, 'profile.read', regions);
      const scope = { org: organization.org_id, regions: namesOf(regions) };
      const values = search.identities.length + search.ucids.length;
      const find = async () => {
        const found = await searchSpellings(profiles, { ...scope, ...search }, spellingsBeyond).catch(
          (error: unknown) => {
            if (!(error instanceof InvalidInput)) throw error;
            calls.charges.chargeFound(organization, [MAX_FOUND_BYTES]);
            throw invalidRequest({ path: '/search', message: error.message });
          },
        );
        const memory = app.openResponseMemory(request, reply);
        const sizes: number[] = [];
        try {
          return await recordTexts(found, MAX_FOUND_BYTES, memory.resize, sizes);
        } finally {
          calls.charges.chargeFound(organization, sizes);
        }
      };
      const [first, ...others] = await calls.charges.run(organization, reply, find, values);
      const text = others.length === 0 ? first : Readable.from([first, ...others]);
      return reply.code(200).type('application/json; charset=utf-8').send(text);
    },
  );

  app.get(
    '/users/:ucid',
    operation('profiles.search', 'readProfile', 'Read a profile by its ucid', {
      description:
        'An extension of the specification. Finds the profile in the regions of the organization in which the credential has `profile.read`; with a client key the organization is that of the key.',
      params: Type.Object({ ucid }),
      response: { 200: foundRecord },
    }),
    async (request, reply) => {
      // The path of another call, such as `_search`: it has no such method.
      if (request.params.ucid.startsWith('_')) return reply.callNotFound();
      const { organization, granted } = calls.admit(request, 'profile.read', []);
      const ucids = isUuid(request.params.ucid) ? [request.params.ucid.toLowerCase()] : [];
      const search = { org: organization.org_id, regions: granted, identities: [], ucids };
      const [profile] = await calls.charges.run(organization, reply, () =>
        searchSpellings(profiles, search, () => []),
      );
      if (profile === undefined) throw notFound();
      const text = JSON.stringify(recordOf(profile));
      calls.charges.chargeFound(organization, [text.length]);
      return reply.code(200).type('application/json; charset=utf-8').send(text);
    },
  );
};

/** Values without a result are searched again by all their older spellings: few calls have any. */
async function searchSpellings(
  profiles: Pick<ProfileStore, 'search'>,
  search: ProfileSearch,
  spellingsBeyond: (found: readonly Profile[]) => readonly Identity[],
): Promise<readonly Profile[]> {
  if (search.identities.length + search.ucids.length === 0) return [];
  const found = (await profiles.search(search)).filter((profile) => isFoundBy(profile, search));
  const identities = spellingsBeyond(found);
  if (identities.length === 0) return found;
  const more = await profiles.search({ ...search, identities, ucids: [] });
  if (more.length === 0) return found;
  const all = new Map([...found, ...more].map((profile) => [profile.ucid, profile]));
  return [...all.values()].sort((left, right) => (left.ucid < right.ucid ? -1 : 1));
}

/** 400 for all faults of the body. A value that no profile can have is not searched for, and finds nothing. */
export function readSearch({ regions, search }: Static<typeof searchBody>, reading: IdentityReading) {
  const count = countOf(search);
  if (count === 0) throw invalidRequest({ path: '/search', message: 'must not be empty' });
  if (count > MAX_SEARCHED)
    throw invalidRequest({ path: '/search', message: `must hold at most ${MAX_SEARCHED} values in all` });
  const faults = Object.keys(search).flatMap((type) => nameFault(type, '/search'));
  const parsed = valuesOf(search, '/search').flatMap((one) => parseValue(one, reading) ?? []);
  if (faults.length > 0) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  const named = parsed.flatMap((one) => (one.kind === 'identity' ? [one] : []));
  const spelled = (breadth: 'usual' | 'every', some = named) =>
    distinctIdentities(some.flatMap(({ identity, sent }) => withSpellings(identity, sent, breadth, reading)));
  const ucids = parsed.flatMap((one) => (one.kind === 'ucid' ? [one.ucid] : []));
  return {
    regions: regionsOf(regions),
    identities: spelled('usual'),
    ucids: [...new Set(ucids)],
    /** All older spellings of the identities without a profile among `found`. */
    spellingsBeyond(found: readonly Profile[]): readonly Identity[] {
      const had = new Set(
        found.flatMap(({ identities }) => identities.map(({ type, value }) => `${type}=${value}`)),
      );
      const missing = named.filter(({ identity: { type, value } }) => !had.has(`${type}=${value}`));
      const searched = new Set(missing.map(({ identity }) => identity));
      return spelled('every', missing).filter((identity) => !searched.has(identity));
    },
  };
}

/** Bytes of the records in one response, at most: 1,000 values may find a gigabyte. */
export const MAX_FOUND_BYTES = 32 * 1024 * 1024;

/** How long serialising may block the event loop before it yields, ms. One record is not interrupted. */
const SLICE_MS = 2;
/** The approximate size of one piece of a response, bytes. */
const PIECE_BYTES = 256 * 1024;

/**
 * The records of the profiles as a JSON list, in pieces; most responses are one piece. 400 when it would exceed
 * `maxBytes`, before the first byte is sent. `reserve` is called with the bytes so far before more are serialised; `sizes`
 * gets the characters of each record.
 */
export async function recordTexts(
  profiles: readonly Profile[],
  maxBytes = MAX_FOUND_BYTES,
  reserve: (bytes: number) => void = () => {},
  sizes: number[] = [],
): Promise<readonly Buffer[]> {
  const pieces: Buffer[] = [];
  let piece = '[';
  let bytes = 0;
  const thread = new EventLoopYielder(() => performance.now(), SLICE_MS);
  for (const [at, profile] of profiles.entries()) {
    const text = JSON.stringify(recordOf(profile));
    sizes.push(text.length);
    bytes += Buffer.byteLength(text);
    if (bytes > maxBytes)
      throw invalidRequest({
        path: '/search',
        message: `finds more than ${maxBytes} bytes of records: search for fewer values at a time`,
      });
    piece += at === 0 ? text : `,${text}`;
    if (piece.length > PIECE_BYTES) {
      reserve(bytes);
      pieces.push(Buffer.from(piece));
      piece = '';
    }
    if (thread.isYieldDue) await thread.yield();
  }
  reserve(bytes);
  return [...pieces, Buffer.from(`${piece}]`)];
}
