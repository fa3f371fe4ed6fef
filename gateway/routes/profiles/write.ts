import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  attributeOf,
  below,
  type CompetingClaim,
  competingClaimWrite,
  DEFAULT_LIMITS,
  defined,
  distinctIdentities,
  type Identity,
  type IdentityLimits,
  type IdentityReading,
  isObject,
  iso,
  isSetAside,
  isTimedValue,
  type Json,
  type JsonObject,
  LEAST_REGISTER_BYTES,
  MAX_PROFILE_BYTES,
  MAX_PROFILE_IDENTITIES,
  messageOf,
  type NewAttribute,
  type NullHandling,
  type Organization,
  type ProfileWrite,
  type ProfileWriteOutcome,
  profileRulesOf,
  recordOf,
  recordOfWrite,
  setAsideOperation,
  TributaryError,
} from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { authorOf, type Caller } from '../../authentication/caller.ts';
import { type ApiError, type ErrorDetail, invalidRequest } from '../../errors/api-error.ts';
import { MAX_DETAILS } from '../../errors/error-handler.ts';
import { closed, freeObject, operation, optional } from '../../resources/schemas.ts';
import { SummedCalls } from '../../resources/summed-calls.ts';
import {
  countOf,
  IDENTITY_TYPES,
  identityValue,
  mapOf,
  type NamedValue,
  orgId,
  profileRecords,
  readIdentity,
  readUcid,
  refuseManyIdentities,
  region,
  regions,
  tooLarge,
  ucid,
  valuesByType,
  valuesOf,
  withSpellings,
} from './bodies.ts';
import { eitherRegions, type ProfileCallOptions, type ProfileCalls } from './calls.ts';

/** A value of a map of `upsert`: alone, or with its time. Beside it, what the record shows and no write sets. */
type SentValue =
  | string
  | null
  | { readonly value: string | null; readonly _ts?: string | number; readonly [shown: string]: unknown };

/** A map from name to value, as text or in the form of a record. `shown`: fields of a record that a write ignores. */
function namedValues(description: string, shown: readonly string[]) {
  const time = { type: ['string', 'integer'], description: 'Epoch ms.' };
  return Type.Unsafe<Readonly<Record<string, SentValue | number>>>({
    type: 'object',
    properties: { _ts: time },
    additionalProperties: {
      type: ['string', 'null', 'object'],
      properties: {
        value: { type: ['string', 'null'] },
        _ts: time,
        ...Object.fromEntries(shown.map((field) => [field, { type: 'string' }])),
      },
      required: ['value'],
      additionalProperties: false,
    },
    description: `${description} A value may have a time, as an object with \`value\` and \`_ts\`, the form of a record; \`_ts\` of the map is the time of the others. \`null\` takes the value away. The newest value counts.`,
  });
}

const upsert = closed({
  profile: optional(
    freeObject(
      'Attributes, by category. A category may say its time as `_ts`, an attribute too, as an object with `value` and `_ts` alone; `_ts` of the whole is the time of the others. `null` as a category or an attribute takes it away, unless the installation keeps nulls (`TRIBUTARY_PROFILE_NULLS`).',
    ),
  ),
  mkt_preferences: optional(namedValues('Preference name to value.', ['datasourceId', 'datasetId', 'type'])),
  consent: optional(namedValues('Consent name to value.', [])),
});

/** Either `region` with `ids`, or `regions` with `search`. */
const writeBody = closed(
  {
    orgId,
    region: optional(region),
    ids: optional(mapOf<string>(identityValue, 'Identifier type to one identifier value.', IDENTITY_TYPES)),
    regions: optional(regions),
    search: optional(valuesByType),
    upsert: optional(upsert),
    ucid: optional(ucid),
  },
  {
    title: 'ProfileWrite',
    examples: [
      {
        orgId: 1,
        region: 'eu',
        ids: { email: 'ada@example.com' },
        upsert: { profile: { home: { city: 'London' } }, consent: { ads: 'no' } },
      },
    ],
  },
);

/** How deep the values of `upsert.profile` are: numbers keep their digits there and nowhere else. */
const IN_PROFILE = 3;

/** `POST /cdp/v1/users`. */
export const writeRoute: FastifyPluginAsyncTypebox<ProfileCallOptions> = async (app, { calls }) => {
  const { profiles, profileNulls = 'unset', profileBounds, clock } = calls.dependencies;
  const summed = new SummedCalls(app, calls.dependencies);

  app.post(
    '/users',
    operation(
      'profiles.write',
      'writeProfile',
      'Write a profile',
      {
        description:
          'The record in the answer has all that is known of the profile where `profile.read` is effective too: named by the header `scopes` and granted in the region. Without it the record has `ucid`, `ids`, `region`, the times, and in `profile`, `mkt_preferences` and `consent` what this very call wrote and nothing else.',
        body: writeBody,
        response: { 200: profileRecords },
      },
      { body: 'exact', exactFrom: IN_PROFILE },
    ),
    async (request, reply) => {
      const { region, preferences, consents, ...write } = readWrite(
        request.body,
        clock(),
        profileNulls,
        calls.readingFor(request.body),
      );
      const { organization, mayRead } = calls.admit(request, 'profile.write', [region]);
      const { isBlocked, limits } = profileRulesOf(organization.profile_settings);
      if (isBlocked !== undefined) refuseBlocked(write.identities.filter(isBlocked), request.body);
      const written: ProfileWrite = {
        ...write,
        org: organization.org_id,
        region: region.name,
        preferences: preferences.map(({ name, value, ...at }) =>
          value === null
            ? { name, value, unset: true, ...at }
            : { name, value: { ...originOf(request.caller), type: name, value }, ...at },
        ),
        consents: consents.map((consent) => (consent.value === null ? { ...consent, unset: true } : consent)),
        linking: 'merge',
        ...(mayRead ? { isByReader: true } : {}),
        ...defined({ limits, bounds: profileBounds }),
      };
      const { id } = organization;
      const noteChanged = summed.countSoon(
        request,
        { name: 'written', entity: 'profile' },
        { scope_id: id, organization_id: id },
      );
      const outcome = await calls.bounded(request, reply, organization, () => profiles.upsert(written));
      if (outcome.kind === 'refused') {
        await writeClaims(request, calls, organization, written, outcome.competingClaims ?? []);
        throw refusalOf(outcome, { body: request.body, mayRead }, limits);
      }
      const { profile } = outcome;
      noteChanged([profile.ucid]);
      return [mayRead ? recordOf(profile) : recordOfWrite(profile, written)];
    },
  );
};

type WriteBody = Static<typeof writeBody>;

/**
 * Reads either form of the body: `region` with `ids`, or `regions` with `search`, with one region and one value per type.
 *
 * - `now`: epoch ms.
 * - `nulls`: for attributes; a `null` preference or consent is always removed.
 *
 * Errors: 400 for all faults of the body; 413 for more than a profile can hold.
 */
export function readWrite(body: WriteBody, now: number, nulls: NullHandling, reading: IdentityReading = {}) {
  const { ids, search, upsert } = body;
  refuseManyIdentities(search == null ? Object.keys(ids ?? {}).length : countOf(search), namesIn(body));
  refuseManyValues(upsert ?? {});
  const faults: ErrorDetail[] = [];
  const [region, ...others] = eitherRegions(body, faults);
  if (others.length > 0) faults.push({ path: '/regions', message: 'must hold exactly one region' });
  const named = valuesNamedIn(body, faults).flatMap(({ value, ...where }) => {
    const identity = readIdentity({ value, ...where }, faults, reading);
    return identity === undefined ? [] : [{ identity, sent: value }];
  });
  const identities = distinctIdentities(named.map(({ identity }) => identity));
  const olderSpellings = named.flatMap(({ identity: of, sent }) =>
    identities.includes(of)
      ? withSpellings(of, sent, 'usual', reading).flatMap((identity) =>
          identity === of ? [] : [{ of, identity }],
        )
      : [],
  );
  const ucid = body.ucid == null ? undefined : readUcid({ value: body.ucid, path: '/ucid' }, faults);
  const values = {
    attributes: readAttributes(upsert?.profile ?? {}, '/upsert/profile', faults, now, nulls),
    preferences: readNamed(upsert?.mkt_preferences ?? {}, '/upsert/mkt_preferences', faults, now),
    consents: readNamed(upsert?.consent ?? {}, '/upsert/consent', faults, now),
  };
  if (identities.length === 0 && ucid === undefined && faults.length === 0)
    faults.push({ path: namesIn(body), message: 'must hold an identifier when there is no ucid' });
  if (faults.length > 0 || region === undefined) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  refuseHeavyValues(values);
  return {
    region,
    identities,
    ...(olderSpellings.length === 0 ? {} : { olderSpellings }),
    ...(ucid === undefined ? {} : { ucid }),
    ...values,
  };
}

/** The path of the identities of a write. */
function namesIn({ search }: Pick<WriteBody, 'search'>): '/ids' | '/search' {
  return search == null ? '/ids' : '/search';
}

/** The path of an identity of a write, which has one of each type. */
function pathOf(body: Pick<WriteBody, 'search'>, { type }: Identity): string {
  return body.search == null ? below('/ids', type) : below(below('/search', type), 0);
}

/** 400 for identities that the organization blocks. */
function refuseBlocked(blocked: readonly Identity[], body: Pick<WriteBody, 'search'>): void {
  if (blocked.length === 0) return;
  throw invalidRequest(
    ...blocked.slice(0, MAX_DETAILS).map((identity) => ({
      path: pathOf(body, identity),
      message: 'is blocked by the organization',
    })),
  );
}

function valuesNamedIn(body: WriteBody, faults: ErrorDetail[]): readonly NamedValue[] {
  const { region, ids, regions, search } = body;
  if (search != null && ids != null)
    faults.push({ path: '/search', message: 'must not be combined with ids' });
  else if (search != null && region != null)
    faults.push({ path: '/search', message: 'must be combined with regions, as ids with region' });
  else if (search == null && regions != null && region == null)
    faults.push({ path: '/regions', message: 'must be combined with search, as region with ids' });
  if (search == null)
    return Object.entries(ids ?? {}).map(([type, value]) => ({ type, value, path: below('/ids', type) }));
  for (const [type, values] of Object.entries(search))
    if (values.length !== 1)
      faults.push({ path: below('/search', type), message: 'must hold exactly one value to write' });
  return valuesOf(search, '/search');
}

/** The origin of a preference: the key or account that wrote it. */
function originOf(caller: Caller) {
  const datasourceId = caller.kind === 'id_token' ? caller.account.id : caller.key.id;
  return { datasourceId, datasetId: 'api' };
}

function refusalOf(
  { reason, identities = [], excess }: Extract<ProfileWriteOutcome, { kind: 'refused' }>,
  { body, mayRead }: { readonly body: Parameters<typeof pathOf>[0]; readonly mayRead: boolean },
  { user_ids }: Pick<IdentityLimits, 'user_ids'> = DEFAULT_LIMITS,
): ApiError {
  switch (reason) {
    case 'shared_identity':
      return invalidRequest(
        ...identities.map((identity) => ({
          path: pathOf(body, identity),
          message: `would join more than ${user_ids} different user_ids and is set aside`,
        })),
      );
    case 'unknown_ucid':
      return invalidRequest({ path: '/ucid', message: 'is not a profile of the region' });
    case 'too_many_identities':
      return invalidRequest({
        path: namesIn(body),
        message: `the profile would have more than ${MAX_PROFILE_IDENTITIES} identities, or more of a type than the organization allows`,
      });
    case 'too_large':
      return tooLarge(excess, mayRead);
    case 'nothing_left':
    case 'too_old':
      throw new Error('a write that is no event was taken for one');
  }
}

/**
 * Adds the competing claims of a refused write to the profiles that own the identities, and audits the identities that are
 * thereby quarantined as shared. A failure is only logged: the write is refused anyway, and the next one tries again.
 */
async function writeClaims(
  request: FastifyRequest,
  { dependencies, charges }: ProfileCalls,
  organization: Organization,
  write: ProfileWrite,
  claims: readonly CompetingClaim[],
): Promise<void> {
  const { profiles, recordProfileOperation, clock, logger, metrics } = dependencies;
  const { id: organization_id } = organization;
  const recorded = {
    organization_id,
    at: iso(clock()),
    by: authorOf(request.caller),
    from: { address: request.clientAddress.text, request_id: request.id },
  };
  try {
    for (const claim of claims) {
      const { identity } = claim;
      const claimed = await profiles.upsert(competingClaimWrite(write, claim));
      charges.charge(organization, claimed);
      if (claimed.kind === 'refused' || !isSetAside(claimed.profile, identity, write.limits)) continue;
      metrics.count('tributary_profile_identities_set_aside_total', { type: identity.type });
      await recordProfileOperation(setAsideOperation(write, claimed.profile.ucid, identity, recorded));
    }
  } catch (error) {
    if (!(error instanceof TributaryError && error.retryable)) throw error;
    const fields = { organization: organization_id, request_id: request.id, error: messageOf(error) };
    logger.warn(fields, 'an identity that too many users share is not recorded; the next call tries again');
  }
}

/** The member of a map, a category or a value that holds its time. */
const TIME = '_ts';
const DIGITS = /^\d{1,20}$/;
/** How far a time may be in the future, ms: a day of clock skew, and a minute that the store may add. */
const MAX_AHEAD_MS = 24 * 3_600_000 + 60_000;
/** In 1973 as milliseconds, in 5138 as seconds. */
const LEAST_IN_MS = 1e11;
/** The same day of 1973 in seconds. Smaller numbers are counters, which are accepted. */
const LEAST_IN_SECONDS = 1e8;

/**
 * The attributes of a body's `profile`. A category that is an object has an attribute for each member, and is written as an
 * empty object without members. Any other category is a value. The time of an attribute is its own, where it is an object
 * with `value` and `_ts` alone, else that of its category, else that of the whole.
 * `nulls`: whether `null` as a category or attribute removes it; within a value it is kept.
 */
export function readAttributes(
  { [TIME]: time, ...categories }: JsonObject,
  path: string,
  faults: ErrorDetail[],
  now: number,
  nulls: NullHandling = 'unset',
): readonly NewAttribute[] {
  const read: Reading = { path, faults, now };
  const whole = timeIn(time, read, undefined);
  return Object.entries(categories).flatMap(([category, value]): readonly NewAttribute[] => {
    if (!isObject(value)) return [{ ...attributeOf([category], value, nulls), ...whole }];
    const { [TIME]: ownTime, ...attributes } = value;
    const inCategory = { ...read, path: below(path, category) };
    const own = timeIn(ownTime, inCategory, whole);
    const members = Object.entries(attributes);
    if (members.length === 0) return [{ path: [category], value: {}, ...own }];
    return members.map(([name, member]) => {
      if (!isTimedValue(member)) return { ...attributeOf([category, name], member, nulls), ...own };
      const at = timeIn(member[TIME], { ...inCategory, path: below(inCategory.path, name) }, own);
      return { ...attributeOf([category, name], member.value, nulls), ...at };
    });
  });
}

/** The values of `mkt_preferences` or `consent`. The time of a value is its own, else that of the map. */
function readNamed(
  { [TIME]: time, ...values }: Readonly<Record<string, SentValue | number>>,
  path: string,
  faults: ErrorDetail[],
  now: number,
): readonly SentNamed[] {
  const whole = timeIn(time as Json | undefined, { path, faults, now }, undefined);
  return Object.entries(values).flatMap(([name, sent]): readonly SentNamed[] => {
    if (typeof sent === 'number') return [];
    if (typeof sent === 'string' || sent === null) return [{ name, value: sent, ...whole }];
    const own = timeIn(sent._ts, { path: below(path, name), faults, now }, whole);
    return [{ name, value: sent.value, ...own }];
  });
}

/** A preference or consent of a body; `null` removes it. */
interface SentNamed {
  readonly name: string;
  readonly value: string | null;
  readonly ts?: number;
}

interface Reading {
  readonly path: string;
  readonly faults: ErrorDetail[];
  readonly now: number;
}

interface Timed {
  readonly ts?: number;
}

/** The time that a `_ts` says; without one, that of what is around it. */
function timeIn(time: Json | undefined, { path, faults, now }: Reading, around: Timed | undefined): Timed {
  const ts = time === undefined ? undefined : readTime(time, below(path, TIME), faults, now);
  return ts === undefined ? (around ?? {}) : { ts };
}

/** Epoch ms, as a number or as text, the form of records. A future time is a fault: it would win over all writes until then. */
function readTime(value: Json, path: string, faults: ErrorDetail[], now: number): number | undefined {
  const ts = typeof value === 'string' && DIGITS.test(value) ? Number(value) : value;
  const message =
    typeof ts === 'number' && Number.isInteger(ts) && ts >= 0
      ? faultOfTime(ts, now)
      : 'must be a time in epoch milliseconds, as a string or an integer';
  if (message === undefined) return Number(ts);
  faults.push({ path, message });
  return undefined;
}

function faultOfTime(ts: number, now: number): string | undefined {
  const latest = now + MAX_AHEAD_MS;
  const isTime = (ms: number) => ms >= LEAST_IN_MS && ms <= latest;
  const meant = (unit: string, ms: number) => `is in ${unit}, in milliseconds it is ${ms}`;
  if (ts >= LEAST_IN_SECONDS && ts < LEAST_IN_MS) return meant('seconds', ts * 1_000);
  if (ts <= latest) return undefined;
  if (isTime(ts / 1_000)) return meant('microseconds', Math.trunc(ts / 1_000));
  if (isTime(ts / 1_000_000)) return meant('nanoseconds', Math.trunc(ts / 1_000_000));
  return 'is more than a day in the future';
}

type Upsert = NonNullable<Static<typeof writeBody>['upsert']>;

/** Attributes, preferences and consents that fit into a profile at most, all together. */
const MAX_REGISTERS = Math.floor(MAX_PROFILE_BYTES / LEAST_REGISTER_BYTES);

/** 413 for more attributes, preferences and consents than a profile can hold. */
function refuseManyValues({ profile, mkt_preferences: preferences, consent }: Upsert): void {
  let count = sizeOf(preferences) + sizeOf(consent);
  for (const category of Object.values(profile ?? {})) count += Math.max(1, sizeOf(category));
  if (count > MAX_REGISTERS) throw tooLarge();
}

/** 413 for values that are larger than a profile may be, without the times that a profile adds. */
function refuseHeavyValues(values: object): void {
  if (Buffer.byteLength(JSON.stringify(values)) > MAX_PROFILE_BYTES) throw tooLarge();
}

function sizeOf(value: unknown): number {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value).length : 0;
}
