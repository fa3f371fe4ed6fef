import { type TSchema, Type } from 'typebox';
import { closed, freeObject, listOf, optional } from '../../http/schemas.ts';

/** Profiles that one call deletes at most, by identities or ucids. */
export const MAX_DELETED = 400;
/** Values that one call searches for at most, of all types together. */
export const MAX_SEARCHED = 1_000;
/** Regions that one call names at most. No organization has as many; it bounds the work before a caller is admitted. */
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

/** An object of the caller's own keys, all of one form. */
function mapOf<Value>(values: TSchema, description: string) {
  return Type.Unsafe<Readonly<Record<string, Value>>>({
    type: 'object',
    additionalProperties: values,
    description,
  } satisfies TSchema);
}

const text = Type.String();

const valuesByType = mapOf<readonly string[]>(
  { type: 'array', items: text, minItems: 1 },
  'Identifier type to identifier values.',
);

const upsert = closed({
  profile: optional(freeObject('Attributes, by category. A category may say its time as `_ts`.')),
  mkt_preferences: optional(mapOf<string>(text, 'Preference name to value.')),
  consent: optional(mapOf<string>(text, 'Consent name to value.')),
});

/** Either `region` with `ids`, or `regions` with `search`. */
export const writeBody = closed({
  orgId,
  region: optional(region),
  ids: optional(mapOf<string>(text, 'Identifier type to one identifier value.')),
  regions: optional(regions),
  search: optional(valuesByType),
  upsert: optional(upsert),
  ucid: optional(ucid),
});

export const searchBody = closed({ orgId, regions, search: valuesByType });

/** Either `region` or `regions`. */
export const deletionBody = closed({
  orgId,
  region: optional(region),
  regions: optional(regions),
  ids: mapOf<readonly string[]>(
    { type: 'array', items: text, minItems: 1, maxItems: MAX_DELETED },
    'One identifier type to the values to delete.',
  ),
  sendEmailNotification: optional(
    Type.Boolean({ description: 'Whether a mail tells of it. Default false.' }),
  ),
});

export const profileRecords = listOf(
  Type.Object({
    updated_ts: Type.Integer({ description: 'Epoch ms.' }),
    created_ts: Type.Integer({ description: 'Epoch ms.' }),
    profile: freeObject('Attributes, by category.'),
    ids: freeObject('Identities, by namespace.'),
    mkt_preferences: freeObject('Marketing preferences, by name.'),
    consent: freeObject('Consents, by name.'),
    region: Type.String(),
    ucid: Type.String({ format: 'uuid' }),
  }),
);

/** The same of a search, whose answer is text by the time it is sent. */
export const foundRecords = Type.Unsafe<unknown>(profileRecords);

const ucids = listOf(Type.String());

export const deletionAnswer = Type.Object({
  ucids,
  deletedProfiles: ucids,
  profilesNotFound: listOf(Type.String(), 'As they were sent.'),
});
