import {
  below,
  DEFAULT_LIMITS,
  isPhoneCountry,
  isStrongType,
  MAX_BLOCKED_IDENTITIES,
  MAX_BLOCKED_PATTERN_LENGTH,
  MAX_BLOCKED_PATTERNS,
  MAX_IDENTITY_CHARACTERS,
  MAX_PROFILE_IDENTITIES,
  NO_PROFILE_SETTINGS,
  type Organization,
  type ProfileSettings,
  readBlockList,
  typeLimitsOf,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { Routes } from '../dependencies.ts';
import { type ErrorDetail, invalidRequest } from '../errors/api-error.ts';
import { MAX_DETAILS } from '../errors/error-handler.ts';
import { applied, checkVersion, isUnchanged, propose, tagged } from '../resources/catalog-entities.ts';
import { boolean, closed, listOf, nullable, operation, optional, shownAs } from '../resources/schemas.ts';

const MAX_TYPES = 50;
const MAX_USER_IDS = 1_000;

const country = Type.String({
  pattern: '^[A-Z]{2}$',
  description:
    'ISO 3166 alpha-2: the country of telephone numbers that name none. Without it only those with `+` or `00` are read.',
});
const identityType = Type.String({ minLength: 1, maxLength: 100, description: 'An identifier type.' });
const value = Type.String({
  minLength: 1,
  maxLength: MAX_IDENTITY_CHARACTERS,
  description: 'The whole value, in any case of letters.',
});
const pattern = Type.String({
  minLength: 1,
  maxLength: MAX_BLOCKED_PATTERN_LENGTH,
  description: 'A regular expression that runs in linear time, as in contracts; found anywhere in the value.',
});
const max = Type.Integer({ minimum: 1, maximum: MAX_PROFILE_IDENTITIES });
const DROPS =
  'Whether the oldest goes when one more comes; else one more is refused. Default: only of `anonymous_id`.';
const userIds = Type.Integer({
  minimum: 1,
  maximum: MAX_USER_IDS,
  description: `Different \`user_id\`s that one identity may bring together. Default ${DEFAULT_LIMITS.user_ids}.`,
});

const settingsBody = closed(
  {
    default_country: optional(country),
    blocked_identities: optional(
      listOf(
        closed({ type: optional(identityType), value: optional(value), pattern: optional(pattern) }),
        `Values that identify no person: either \`value\` or \`pattern\`, of one \`type\` or, without it, of every one. At most ${MAX_BLOCKED_PATTERNS} patterns.`,
        { maxItems: MAX_BLOCKED_IDENTITIES },
      ),
    ),
    identity_limits: optional(
      listOf(
        closed({ type: identityType, max, drop_oldest: optional(boolean(DROPS)) }),
        'How many identities of a type a profile has.',
        { maxItems: MAX_TYPES },
      ),
    ),
    max_user_ids_per_identity: optional(userIds),
  },
  {
    title: 'ProfileSettingsBody',
    examples: [
      {
        default_country: 'AT',
        blocked_identities: [
          { type: 'email', value: 'frontdesk@example.com' },
          { type: 'user_id', pattern: '^kiosk-' },
        ],
        identity_limits: [{ type: 'anonymous_id', max: 100 }],
      },
    ],
  },
);

const settingsResource = Type.Object(
  {
    default_country: nullable(Type.String()),
    blocked_identities: listOf(
      Type.Object({
        type: nullable(Type.String()),
        value: nullable(Type.String()),
        pattern: nullable(Type.String()),
      }),
    ),
    identity_limits: listOf(
      Type.Object({ type: Type.String(), max: Type.Integer(), drop_oldest: Type.Boolean() }),
      'The effective limits, defaults included.',
    ),
    max_user_ids_per_identity: Type.Integer(),
  },
  { title: 'ProfileSettings' },
);

/** `/organizations/{id}/profile-settings`: which identities the organization's profiles take, and how they are read. */
export const profileSettingsRoutes: Routes = async (app, dependencies) => {
  const { catalog } = dependencies;

  app.get(
    '/organizations/:organizationId/profile-settings',
    operation('profile-settings.read', 'readProfileSettings', 'Read how an organization identifies people', {
      response: { 200: settingsResource },
    }),
    async ({ organization }, reply) => {
      return present(tagged(reply, organization));
    },
  );

  app.put(
    '/organizations/:organizationId/profile-settings',
    operation(
      'profile-settings.update',
      'replaceProfileSettings',
      'Replace the profile settings of an organization',
      {
        description:
          'Applies to later writes, searches and deletions. Existing identities of profiles stay until they are unlinked or expire. The version is that of the organization.',
        body: settingsBody,
        response: { 200: settingsResource },
      },
      {
        patched: ({ organization }) => {
          const { version, profile_settings = NO_PROFILE_SETTINGS } =
            catalog.state.organization(organization.id) ?? organization;
          return { ...profile_settings, version };
        },
      },
    ),
    async (request, reply) => {
      const current = () => catalog.state.organization(request.organization.id);
      const stored = current() ?? request.organization;
      checkVersion(request, stored);
      const profile_settings = readSettings(request.body);
      if (!(await isUnchanged(dependencies, stored, { profile_settings }, current))) {
        const { id: entity, version: expected_version, name, regions, notification_email } = stored;
        const data = { name, regions, notification_email, profile_settings };
        await propose(request, dependencies, {
          type: 'organization.updated',
          entity,
          expected_version,
          data,
        });
      }
      return present(tagged(reply, applied(current())));
    },
  );
};

function present({ profile_settings = NO_PROFILE_SETTINGS }: Organization): Static<typeof settingsResource> {
  return shownAs(settingsResource, profile_settings, {
    identity_limits: typeLimitsOf(profile_settings),
    max_user_ids_per_identity: profile_settings.max_user_ids_per_identity ?? DEFAULT_LIMITS.user_ids,
  });
}

/** 400 with everything that is wrong. */
function readSettings(body: Static<typeof settingsBody>): ProfileSettings {
  const { default_country = null } = body;
  const faults: ErrorDetail[] = [];
  if (default_country !== null && !isPhoneCountry(default_country))
    faults.push({ path: '/default_country', message: 'is not a country with telephone numbers' });
  const blocked_identities = (body.blocked_identities ?? []).map(({ type, value, pattern }) => ({
    type: type ?? null,
    value: value ?? null,
    pattern: pattern ?? null,
  }));
  if (blocked_identities.filter(({ pattern }) => pattern !== null).length > MAX_BLOCKED_PATTERNS)
    faults.push({
      path: '/blocked_identities',
      message: `must hold at most ${MAX_BLOCKED_PATTERNS} patterns`,
    });
  else {
    const read = readBlockList(blocked_identities);
    if ('faults' in read)
      faults.push(
        ...read.faults.map(({ path, message }) => ({ path: `/blocked_identities${path}`, message })),
      );
  }
  const seen = new Set<string>();
  const identity_limits = (body.identity_limits ?? []).map(({ type, max, drop_oldest }, at) => {
    const path = below('/identity_limits', at);
    if (seen.has(type)) faults.push({ path: below(path, 'type'), message: 'must not occur twice' });
    seen.add(type);
    if (drop_oldest === true && isStrongType(type))
      faults.push({
        path: below(path, 'drop_oldest'),
        message: 'must be false for a type that identifies a person',
      });
    const drops = DEFAULT_LIMITS.types.find((limit) => limit.type === type)?.drop_oldest ?? false;
    return { type, max, drop_oldest: drop_oldest ?? drops };
  });
  if (faults.length > 0) throw invalidRequest(...faults.slice(0, MAX_DETAILS));
  return {
    default_country,
    blocked_identities,
    identity_limits,
    max_user_ids_per_identity: body.max_user_ids_per_identity ?? null,
  };
}
