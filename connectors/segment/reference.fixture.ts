import { PROVIDERS, type Provider } from '../oauth/providers.ts';
import { PARTNER_SECRETS } from './connector.ts';
import type { Definition } from './definitions.ts';

/** The reference of all destinations of the pack, in Markdown: `docs/reference/segment-destinations.md`. */
export function describePack(
  definitions: readonly Definition[],
  rest: readonly { readonly destination: string; readonly reason: string }[],
): string {
  const connected = definitions.filter(({ authorization }) => authorization === 'connection');
  const open = definitions.filter((one) => one.needs === undefined && !connected.includes(one));
  const withSecrets = definitions.length - connected.length;
  const categories = [...new Set(definitions.map(({ category }) => category))].sort();
  return `${[
    '# Destinations of the Segment pack',
    "Made from Segment's pack of actions (`@segment/action-destinations`) by `connectors/segment/definitions.spec.ts`. How they work is in [Connectors](connectors.md#destinations-of-the-segment-pack), what each sends in `connectors/segment/deliveries.requests.txt`.",
    `${open.length} kinds are offered, ${withSecrets} where the [secrets of partners](#secrets-of-partners) are set, and ${definitions.length} with the [services](#services-that-a-person-signs-in-to) that a person signs in to (\`§\`). \`GET destination-types/{type}\` and the console have their settings, with what they are for. \`†\`: the pack cannot test the settings; \`‡\`: all or some of its actions take batches.`,
    ...categories.map((category) =>
      section(
        category,
        definitions.filter((one) => one.category === category),
      ),
    ),
    '## People and audiences',
    `These delete a person at the vendor, by \`user_id\` and where \`*\` stands by \`anonymous_id\`: ${definitions.flatMap(deletion).join(', ')}. These create audiences there: ${definitions.flatMap(({ type, hasAudiences }) => (hasAudiences ? [`\`${type}\``] : [])).join(', ')}. What they send is in \`connectors/segment/*.requests.txt\`.`,
    '## Secrets of partners',
    `Some vendors give Segment a secret of its own, which is none of the user. An installation that has such secrets sets them as \`TRIBUTARY_SEGMENT_SECRETS\`, a JSON object by the names that the pack has for them: ${PARTNER_SECRETS.map((name) => `\`${name}\``).join(', ')}. A destination appears when all of its secrets are set.`,
    '## Services that a person signs in to',
    'These destinations are connected with an account by OAuth 2. They are offered where the installation has a client at the service, and the secrets of partners that they need, see [Connect a service](../guides/connect-a-service.md). With the name in `TRIBUTARY_OAUTH_CLIENTS`, documents of 30 November 2026, what is asked for, and whether the connection is revoked there:',
    [...Object.entries(PROVIDERS).map(([name, provider]) => serviceRow(name, provider, connected))].join(
      '\n',
    ),
    '## Not offered',
    ['By the folder of the pack:', notOffered(rest)].join('\n\n'),
  ].join('\n\n')}\n`;
}

function deletion({ type, deletes }: Definition): readonly string[] {
  return deletes === undefined ? [] : [`\`${type}\`${deletes.includes('anonymous_id') ? '\\*' : ''}`];
}

function notOffered(rest: readonly { readonly destination: string; readonly reason: string }[]): string {
  return [...Map.groupBy(rest, ({ reason }) => reason)]
    .map(
      ([reason, group]) => `- ${group.map(({ destination }) => `\`${destination}\``).join(', ')}: ${reason}`,
    )
    .join('\n');
}

function serviceRow(
  name: string,
  { title, documents, destinations, endpoints }: Provider,
  connected: readonly Definition[],
): string {
  const asks = Object.entries(destinations).map(([folder, { scopes }]) => {
    const type = connected.find(({ destination }) => destination === folder)?.type ?? folder;
    return `\`${type}\`${scopes.length === 0 ? '' : `: ${scopes.map((scope) => `\`${scope}\``).join(', ')}`}`;
  });
  const links = documents.map((document, at) => `[${at + 1}](${document})`).join(', ');
  const revokes = endpoints({}).revoke === undefined ? '' : ' (revokes)';
  return `- ${title} (\`${name}\`, ${links}): ${asks.join('; ')}${revokes}`;
}

function section(category: string, definitions: readonly Definition[]): string {
  return [`## ${category}`, `${definitions.map(entry).join(', ')}.`].join('\n\n');
}

function entry({ type, title, hasTest, needs, batches, authorization }: Definition) {
  const marks = [
    ...(authorization === 'connection' ? ['§'] : []),
    ...(hasTest ? [] : ['†']),
    ...(batches === undefined ? [] : ['‡']),
  ].join('');
  const needed = needs === undefined ? '' : ` (needs ${needs.map((name) => `\`${name}\``).join(', ')})`;
  return `${title} \`${type}\`${marks}${needed}`;
}
