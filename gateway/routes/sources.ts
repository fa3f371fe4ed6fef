import {
  type CatalogSource,
  HMAC_ALGORITHMS,
  HMAC_ENCODINGS,
  type Sealed,
  type SourceWebhook,
  WEBHOOK_KINDS,
} from '@tributary/core';
import { type Static, Type } from 'typebox';
import type { GatewayDependencies, Routes } from '../dependencies.ts';
import { invalidRequest } from '../errors/api-error.ts';
import { update } from '../resources/catalog-entities.ts';
import { entityRoutes } from '../resources/entity-routes.ts';
import { byId, byText, catalogList } from '../resources/lists.ts';
import {
  closed,
  description,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  recordFields,
  resourceFields,
} from '../resources/schemas.ts';
import { MASK } from './destination-settings.ts';
import { STANDARD_SECRET } from './webhooks/signature.ts';

const type = Type.String({
  minLength: 1,
  maxLength: 50,
  pattern: '^[a-z0-9][a-z0-9_-]*$',
  description: 'The kind of source, freely chosen: `web`, `ios`, `billing-server`.',
});

/** A JSON pointer, or the name of a header. */
const PLACE = "^(?:(?:/(?:[^~/]|~[01])*)+|[\\w!#$%&'*+.^`|~-]+)$";
/** A space or line break at an end is one that was copied by mistake. */
const SECRET = '^\\S(?:.*\\S)?$';
const TOKEN = "^[\\w!#$%&'*+.^`|~-]+$";

const place = (what: string, otherwise: string) =>
  Type.String({
    pattern: PLACE,
    maxLength: 200,
    description: `Where a payload has ${what}: a JSON pointer into it, or the name of a header. ${otherwise}`,
    examples: ['/customer/id'],
  });

const hmacSignature = closed({
  header: Type.String({ pattern: TOKEN, maxLength: 100, description: 'The header that has the signature.' }),
  algorithm: oneOf(HMAC_ALGORITHMS, 'The hash of the HMAC.'),
  encoding: oneOf(HMAC_ENCODINGS, 'How the header writes it.'),
  prefix: Type.String({ maxLength: 100, description: 'What the header has before it; may be empty.' }),
});

const MAX_SECRETS = 2;

const webhookFields = {
  kind: oneOf(
    WEBHOOK_KINDS,
    'Whose webhooks they are, which is how they are signed; `standard`: as of Standard Webhooks, `hmac`: as `hmac` says, `none`: they are not signed.',
  ),
  hmac: optional(hmacSignature),
  message_id: optional(
    place(
      'what identifies it',
      'Default: the id of the vendor; of the kinds `hmac` and `none` a hash of the body.',
    ),
  ),
  event: optional(place('the name of the event', 'Default: the type of the vendor.')),
  user_id: optional(place('the `user_id`', 'Default: there is none.')),
  anonymous_id: optional(place('the `anonymous_id`', 'Default: the kind and the id of the source.')),
  timestamp: optional(
    place(
      'when it happened, in ISO 8601 or as seconds or milliseconds since 1970',
      'Default: the time of the vendor, else the server’s.',
    ),
  ),
};

const webhookBody = closed({
  ...webhookFields,
  secrets: optional(
    Type.Array(Type.String({ maxLength: 500, pattern: SECRET }), {
      maxItems: MAX_SECRETS,
      description:
        'A request signed with either of them is accepted. A mask stands for a stored secret, the first one for the first: `["<new>", "********"]` keeps the one before. Left out: all stay.',
    }),
  ),
});

const webhookResource = Type.Object({
  ...webhookFields,
  secrets: listOf(Type.String(), 'Masked.'),
});

const sourceBody = closed(
  {
    name,
    type,
    description: optional(description),
    webhook: optional(webhookBody),
  },
  { title: 'SourceBody', examples: [{ name: 'shop', type: 'web' }] },
);

const sourceResource = Type.Object(
  {
    ...resourceFields,
    type,
    description: nullable(description),
    webhook: nullable(webhookResource),
    status: oneOf(['active']),
    ...recordFields,
  },
  { title: 'Source' },
);

const sources = catalogList<CatalogSource>()({
  filters: {
    type: byText('Only of this kind.', ({ type }) => type),
    created_by: byId('Only those that this account created.', ({ created_by }) => created_by),
  },
});

/**
 * The webhook of a body in its stored form; null for none. 400 for a configuration that could accept no request, and for a mask
 * without a stored secret: those of another kind are not kept.
 */
function storedWebhook(
  { webhook: body }: Static<typeof sourceBody>,
  sourceId: string,
  stored: SourceWebhook | null | undefined,
  seal: GatewayDependencies['sealWebhookSecret'],
): SourceWebhook | null {
  if (body == null) return null;
  const { kind, secrets, hmac, message_id, event, user_id, anonymous_id, timestamp } = body;
  const kept = stored?.kind === kind ? stored.secrets : [];
  const sealed = secrets == null ? kept : sealedSecrets(secrets, kept, (secret) => seal(sourceId, secret));
  if (kind === 'none' && sealed.length > 0) throw refused('secrets', 'must be empty for the kind none');
  if (kind !== 'none' && sealed.length === 0) throw refused('secrets', `is required for the kind ${kind}`);
  const malformed =
    kind === 'standard'
      ? secrets?.findIndex((secret) => secret !== MASK && !STANDARD_SECRET.test(secret))
      : undefined;
  if (malformed !== undefined && malformed >= 0)
    throw refused(`secrets/${malformed}`, 'must be whsec_ and base64');
  if ((hmac != null) !== (kind === 'hmac'))
    throw refused('hmac', kind === 'hmac' ? 'is required for the kind hmac' : 'is for the kind hmac alone');
  return {
    kind,
    secrets: sealed,
    ...(hmac != null && { hmac }),
    ...(message_id != null && { message_id }),
    ...(event != null && { event }),
    ...(user_id != null && { user_id }),
    ...(anonymous_id != null && { anonymous_id }),
    ...(timestamp != null && { timestamp }),
  };
}

/** The n-th mask stands for the n-th stored secret. */
function sealedSecrets(
  stated: readonly string[],
  stored: readonly Sealed[],
  seal: (secret: string) => Sealed,
): readonly Sealed[] {
  const masked = stored.values();
  return stated.map((secret, index) => {
    if (secret !== MASK) return seal(secret);
    const { value } = masked.next();
    if (value === undefined)
      throw refused(`secrets/${index}`, 'must be stated: no secret of this kind is stored');
    return value;
  });
}

function refused(field: string, message: string) {
  return invalidRequest({ path: `/webhook/${field}`, message });
}

function presentSource(source: CatalogSource): Static<typeof sourceResource> {
  const { webhook } = source;
  return {
    ...source,
    webhook: webhook == null ? null : { ...webhook, secrets: webhook.secrets.map(() => MASK) },
  };
}

/** `/workspaces/:workspaceId/sources`: the sources of events. A write key may name one; its events then have the id. */
export const sourceRoutes: Routes = async (app, dependencies) => {
  const { sealWebhookSecret } = dependencies;
  await app.register(
    entityRoutes(dependencies, {
      kind: 'source',
      collection: 'sources',
      noun: 'a source',
      body: sourceBody,
      resource: sourceResource,
      list: sources,
      create: (_, body, id) => {
        const { name, type, description = null } = body;
        const webhook = storedWebhook(body, id, null, sealWebhookSecret);
        return {
          fields: {
            name,
            type,
            description,
            status: 'active' as const,
            ...(webhook !== null && { webhook }),
          },
        };
      },
      replace: (request, body, stored) => {
        const { name, type, description = null } = body;
        const webhook = storedWebhook(body, stored.id, stored.webhook, sealWebhookSecret);
        // A source without one has no such field, as those that earlier releases have stored.
        const change = webhook === null && stored.webhook === undefined ? {} : { webhook };
        return update(request, dependencies, 'source', stored, { name, type, description, ...change });
      },
      present: presentSource,
    }),
  );
};
