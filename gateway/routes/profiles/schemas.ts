import { type TSchema, Type } from 'typebox';
import { documentedAs } from '../../resources/documented.ts';
import { closed, freeObject, listOf, optional } from '../../resources/schemas.ts';

/** Values of one deletion, at most. */
export const MAX_DELETED = 400;
/** Values of one search, at most, of all types together. */
export const MAX_SEARCHED = 1_000;
/** Regions of one call, at most: more than an organization has, to bound the work before admission. */
export const MAX_REGIONS = 100;

const orgId = Type.Integer({ description: 'Organisation identifier.' });
const region = Type.String({ description: 'Region code.' });
const regions = Type.Unsafe<readonly string[]>({
  type: 'array',
  items: region,
  minItems: 1,
  maxItems: MAX_REGIONS,
  description: 'Region codes.',
} satisfies TSchema);
const ucid = Type.String({ description: 'UUID of a profile, or of one that became part of it.' });

/** A map with keys of the caller. `documented`: keywords for the OpenAPI document. */
function mapOf<Value>(values: TSchema, description: string, documented: object = {}) {
  return Type.Unsafe<Readonly<Record<string, Value>>>({
    type: 'object',
    additionalProperties: values,
    description,
    ...documentedAs({ ...documented }),
  } satisfies TSchema);
}

/** Documents the checks of `identities.ts`. */
const IDENTITY_TYPES = { propertyNames: { pattern: '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$' } };
const identityValue = Type.String({ ...documentedAs({ pattern: '\\S' }) });

const valuesByType = mapOf<readonly string[]>(
  { type: 'array', items: identityValue, minItems: 1 },
  'Identifier type to identifier values.',
  IDENTITY_TYPES,
);

/** A value of a map of `upsert`: alone, or with its time. Beside it, what the record shows and no write sets. */
export type SentValue =
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
export const writeBody = closed(
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

export const searchBody = closed(
  { orgId, regions, search: valuesByType },
  {
    title: 'ProfileSearch',
    examples: [{ orgId: 1, regions: ['eu'], search: { email: ['ada@example.com'] } }],
  },
);

/** Either `region` or `regions`. */
export const deletionBody = closed(
  {
    orgId,
    region: optional(region),
    regions: optional(regions),
    ids: mapOf<readonly string[]>(
      { type: 'array', items: identityValue, minItems: 1, maxItems: MAX_DELETED },
      'One identifier type to the values to delete.',
      { ...IDENTITY_TYPES, minProperties: 1, maxProperties: 1 },
    ),
    sendEmailNotification: optional(
      Type.Boolean({ description: 'Whether a notification e-mail is sent. Default false.' }),
    ),
  },
  {
    title: 'ProfileDeletionBody',
    examples: [{ orgId: 1, region: 'eu', ids: { email: ['ada@example.com'] } }],
  },
);

export const unlinkBody = closed(
  {
    orgId,
    region,
    ids: mapOf<readonly string[]>(
      { type: 'array', items: identityValue, minItems: 1 },
      'Identifier type to the values to take away from their profile.',
      { ...IDENTITY_TYPES, minProperties: 1 },
    ),
    ucid: optional(ucid),
  },
  {
    title: 'ProfileUnlinkBody',
    examples: [{ orgId: 1, region: 'eu', ids: { email: ['office@example.com'] } }],
  },
);

export const splitBody = closed(
  {
    orgId,
    region,
    ucid: Type.String({ description: 'UUID of a profile that became part of another one.' }),
  },
  {
    title: 'ProfileSplitBody',
    examples: [{ orgId: 1, region: 'eu', ucid: '0192f0c2-11aa-7b0e-9d1e-7a2f6d1b4c3d' }],
  },
);

export const profileRecords = listOf(
  Type.Object(
    {
      updated_ts: Type.Integer({ description: 'Epoch ms.' }),
      created_ts: Type.Integer({ description: 'Epoch ms.' }),
      profile: freeObject('Attributes, by category.'),
      ids: freeObject('Identities, by namespace.'),
      mkt_preferences: freeObject('Marketing preferences, by name.'),
      consent: freeObject('Consents, by name.'),
      region: Type.String(),
      ucid: Type.String({ format: 'uuid' }),
    },
    { title: 'ProfileRecord' },
  ),
);

/** The records of a search, which are serialised before they are sent. */
export const foundRecords = Type.Unsafe<unknown>(profileRecords);

const ucids = listOf(Type.String());

const rests = {
  kept: optional(
    listOf(
      Type.String(),
      'Values that name no part, written after the merge, which the survivor keeps: JSON pointers into its record, one for each type of identity. Only when `profile.read` is effective as well.',
    ),
  ),
  lost: optional(
    listOf(
      Type.String(),
      'Values that only one of the two has, while the other may have had an older one that was not kept: version 0.2.0 merged them, or there were too many. JSON pointers, as `kept`.',
    ),
  ),
};

export const unlinkAnswer = Type.Object(
  {
    ucids: listOf(
      Type.String(),
      'The profile that was changed, then that of the identities where they became one; empty when no profile has any of them.',
    ),
    identitiesNotFound: listOf(Type.String(), 'The identities that the profile did not have, as sent.'),
    ...rests,
  },
  { title: 'ProfileUnlink' },
);

export const splitAnswer = Type.Object(
  {
    ucid: Type.String({ format: 'uuid', description: 'The profile that is one of its own again.' }),
    survivor: Type.String({ format: 'uuid', description: 'The profile that it was part of.' }),
    ...rests,
  },
  { title: 'ProfileSplit' },
);

export const deletionAnswer = Type.Object(
  {
    ucids,
    deletedProfiles: ucids,
    profilesNotFound: listOf(Type.String(), 'As they were sent.'),
  },
  { title: 'ProfileDeletion' },
);
