import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { JsonObject, PersonIdentity } from '@tributary/core';
import { WORDS } from './catalog.fixture.ts';
import type { Definition } from './definitions.ts';
import { choiceOf, oneLine } from './details.ts';
import { loadDefinition, type PackDefinition, type PackField } from './pack.ts';

/** Why destinations of the pack are not offered, where the pack itself does not show it. */
const EXCLUDED: Readonly<Record<string, string>> = {
  criteo: 'a sketch of the pack: its only action sends to `example.com`',
  'display-video-360': 'a grant that Google gives Segment alone',
  'engage-messaging-sendgrid': 'part of Segment Engage: reads templates and profiles of a Segment space',
  'engage-messaging-twilio': 'part of Segment Engage: reads profiles of a Segment space',
  example: 'an example of the pack without code',
  'google-sheets-dev': 'alias of `google-sheets`, for tests of Segment',
  'memora-internal': 'alias of `memora`, for Segment itself',
  noop: 'sends nothing',
  zapier: 'needs the hook of the pack that subscribes when a mapping is saved, which is not built',
  'segment-profiles': 'part of Segment Profiles: needs a Segment space',
};

/** OAuth 2 with credentials that are settings of the destination: nobody has to be sent to the vendor. */
const OWN_GRANTS: ReadonlySet<string> = new Set([
  '1plusx-asset-api',
  'acoustic',
  'listrak',
  'm3ter',
  'marketo-static-lists',
  'responsys',
  'salesforce-marketing-cloud',
  'taboola-actions',
]);

/** OAuth 2 at vendors that also give accounts a token of their own, which does not expire. */
const OWN_TOKENS: Readonly<Record<string, string>> = {
  attio:
    'A key of the API, from the settings of the workspace, see [API keys](https://docs.attio.com/rest-api/guides/authentication).',
  hubspot:
    'The token of a private app, see [private apps](https://developers.hubspot.com/docs/guides/apps/private-apps/overview).',
  intercom:
    'The access token of an app in your own workspace, see [authentication](https://developers.intercom.com/docs/build-an-integration/learn-more/authentication).',
};

interface Sources {
  /** The code of the destination, without what it requires outside of the folder of destinations. */
  readonly code: string;
}

const require = createRequire(import.meta.url);
const ROOT = require.resolve('@segment/action-destinations').replace(/index\.js$/, '');

/** The modules that a destination is made of, after it was loaded. */
function sourcesOf(destination: string): Sources {
  const seen = new Set<string>();
  const visit = (id: string) => {
    const module = require.cache[id];
    if (module === undefined || seen.has(id) || !id.startsWith(ROOT)) return;
    seen.add(id);
    for (const child of module.children) visit(child.id);
  };
  visit(require.resolve(`@segment/action-destinations/dist/destinations/${destination}`));
  return { code: [...seen].map((id) => readFileSync(id, 'utf8')).join('\n') };
}

/** All folders of the pack. */
export function foldersOfPack(): readonly string[] {
  const { readdirSync } = require('node:fs') as typeof import('node:fs');
  return readdirSync(`${ROOT}destinations`, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort();
}

/** Variables that are no secrets of partners. */
const ENVIRONMENT = /^(?:NODE_ENV|AWS_REGION|KAFKA_\w+|ACTIONS_MEMORA_ENV)$/;
const SOCKETS = /require\("(?:node:)?(https?|net|tls|kafkajs|ssh2-sftp-client|@aws-sdk\/[a-z0-9-]+)"\)/;

type Offer =
  | { readonly offered: false; readonly destination: string; readonly name: string; readonly reason: string }
  | {
      readonly offered: true;
      readonly destination: string;
      readonly definition: PackDefinition;
      readonly authorization: Definition['authorization'];
      readonly needs: readonly string[];
      readonly code: string;
    };

/** Whether a destination of the pack can run, and why not. */
export function offerOf(destination: string): Offer {
  const excluded = EXCLUDED[destination];
  const no = (name: string, reason: string): Offer => ({ offered: false, destination, name, reason });
  if (destination === 'example') return no('Example', excluded ?? '');
  const definition = loadDefinition(destination);
  const { code } = sourcesOf(destination);
  const name = WORDS[destination]?.title ?? definition.name;
  if (excluded !== undefined) return no(name, excluded);
  const scheme = definition.authentication?.scheme ?? '';
  const authorization = OWN_GRANTS.has(destination)
    ? 'grant'
    : Object.hasOwn(OWN_TOKENS, destination)
      ? 'token'
      : undefined;
  if (/^oauth/.test(scheme) && authorization === undefined)
    return no(name, 'OAuth 2, which is not built yet');
  const socket = SOCKETS.exec(code)?.[1];
  if (socket !== undefined)
    return no(name, `opens sockets of its own (\`${socket}\`), which no egress guard checks`);
  const variables = [...code.matchAll(/\benv(?:\.|\[['"])([A-Z][A-Z0-9_]{4,})/g)].map(([, one = '']) => one);
  const needs = [...new Set(variables)].filter((one) => !ENVIRONMENT.test(one)).sort();
  return { offered: true, destination, definition, authorization, needs, code };
}

/** The definitions of the pack's offered destinations, as `definitions.json` has them; `hostsOf` finds their hosts. */
export function define(
  { destination, definition, authorization, needs }: Extract<Offer, { offered: true }>,
  hosts: readonly string[],
  deletes: readonly (keyof PersonIdentity)[],
): Definition {
  const { authentication, presets = [], actions, audienceConfig = {} } = definition;
  const token = OWN_TOKENS[destination];
  const fields: readonly [string, PackField][] = [
    ...(token === undefined ? [] : [['accessToken', { label: '', required: true }] as [string, PackField]]),
    ...Object.entries(authentication?.fields ?? {}),
  ];
  const words = WORDS[destination];
  if (words === undefined) throw new Error(`catalog.fixture.ts has no words about ${destination}`);
  const mappings = JSON.stringify([presets, actions]);
  const integrations = [
    ...mappings.matchAll(/\$\.integrations(?:\.|\[')([A-Za-z0-9 ().]+?)(?:'\]|\.[a-z_]+)/g),
  ];
  return {
    destination,
    type: `segment-${destination.replace(/-functions$/, '')}`,
    ...words,
    properties: Object.fromEntries(
      fields.map(([field, about]) => [
        field,
        { ...propertyOf(field, about), ...(field === 'accessToken' && token && { description: token }) },
      ]),
    ),
    required: fields.filter(([, { required }]) => required === true).map(([field]) => field),
    presets: presets.flatMap(({ name, type, subscribe, partnerAction }) =>
      type === 'automatic' && subscribe !== undefined
        ? [{ name, subscribe: oneLine(subscribe), action: partnerAction }]
        : [],
    ),
    actions: Object.keys(actions),
    hasTest: authentication?.testAuthentication !== undefined,
    integrations: [...new Set(integrations.map(([, name = '']) => name))].sort(),
    hosts,
    ...(authorization === undefined ? {} : { authorization }),
    ...(deletes.length === 0 ? {} : { deletes }),
    ...('createAudience' in audienceConfig ? { hasAudiences: true } : {}),
    ...(needs.length === 0 ? {} : { needs }),
  };
}

/** Without the words of the pack, which forms read from it. */
export function propertyOf(name: string, { type, choices, default: byDefault }: PackField): JsonObject {
  const kind = type === 'boolean' ? 'boolean' : type === 'number' || type === 'integer' ? 'number' : 'string';
  const values = choices?.map((choice) => choiceOf(choice).value);
  return {
    type: kind,
    ...(kind === 'string' ? { maxLength: isLong(name) ? 8_192 : 2_048 } : {}),
    ...(values === undefined || values.length === 0 ? {} : { enum: values }),
    // Some defaults are none: an empty text, or no choice.
    ...(byDefault === undefined || byDefault === '' || values?.includes(byDefault) === false
      ? {}
      : { default: byDefault }),
    ...(isSecret(name, type) ? { writeOnly: true } : {}),
  };
}

/** Private keys and service accounts. */
function isLong(name: string): boolean {
  return /private|pem|certificate|service_?account/i.test(name);
}

/** The pack marks few of them. Better one too many than a key that is shown. */
function isSecret(name: string, type: string | undefined): boolean {
  return type === 'password' || /key|secret|token|password|credential|pwd/i.test(name);
}

/** Hosts of URLs in the code of a destination, without those of texts for people. */
export function hostsInCode(code: string): readonly string[] {
  const texts = /\b(?:description|label|placeholder|title|message)\s*:\s*(['"`])(?:\\.|(?!\1)[\s\S])*?\1/g;
  const urls = code.replace(texts, '').replace(/^\s*\/\/.*$/gm, '');
  const found = [...urls.matchAll(/https?:\/\/((?:\$\{[^}]*\}|[A-Za-z0-9_.-])+)/g)].map(([, host = '']) =>
    host.replace(/\$\{[^}]*\}/g, '*').toLowerCase(),
  );
  return [...new Set(found)].filter(isNarrow).sort();
}

/** A host, or a name of one part below a domain of the vendor. */
function isNarrow(host: string): boolean {
  const [, , more] = host.split('*');
  if (
    more !== undefined ||
    /^(?:localhost|example\.|.*\.example\.)|json-schema\.org$|^www\.example/.test(host)
  )
    return false;
  const fixed = host.includes('*') ? host.slice(host.indexOf('*') + 1).replace(/^[^.]*/, '') : `.${host}`;
  return fixed.split('.').filter((part) => part !== '').length >= 2;
}
