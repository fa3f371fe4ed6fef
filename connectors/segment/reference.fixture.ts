import type { JsonObject } from '@tributary/core';
import { PARTNER_SECRETS } from './connector.ts';
import type { Definition } from './definitions.ts';

/** The reference of all destinations of the pack, in Markdown: `docs/reference/segment-destinations.md`. */
export function describePack(
  definitions: readonly Definition[],
  rest: readonly { readonly destination: string; readonly name: string; readonly reason: string }[],
): string {
  const open = definitions.filter(({ needs }) => needs === undefined);
  const categories = [...new Set(definitions.map(({ category }) => category))].sort();
  return `${[
    '# Destinations of the Segment pack',
    "Made from Segment's pack of actions (`@segment/action-destinations`) by `connectors/segment/definitions.spec.ts`. How they work is in [Connectors](connectors.md#destinations-of-the-segment-pack), what each sends in [Requests](segment-requests.md).",
    `${open.length} kinds are offered, ${definitions.length} where the [secrets of partners](#secrets-of-partners) are set. Required settings are bold; \`*\`: a secret; \`†\`: the pack cannot test the settings.`,
    ...categories.map((category) =>
      section(
        category,
        definitions.filter((one) => one.category === category),
      ),
    ),
    '## People and audiences',
    `These delete a person at the vendor, by the ids in parentheses: ${definitions.flatMap(deletion).join(', ')}. These create audiences there: ${definitions.flatMap(({ type, hasAudiences }) => (hasAudiences ? [`\`${type}\``] : [])).join(', ')}. What they send is in \`connectors/segment/*.requests.txt\`.`,
    '## Secrets of partners',
    `Some vendors give Segment a secret of its own, which is none of the user. An installation that has such secrets sets them as \`TRIBUTARY_SEGMENT_SECRETS\`, a JSON object by the names that the pack has for them: ${PARTNER_SECRETS.map((name) => `\`${name}\``).join(', ')}. A destination appears when all of its secrets are set.`,
    '## Not offered',
    ['| folder of the pack | name | reason |', '|---|---|---|', ...rest.map(row)].join('\n'),
  ].join('\n\n')}\n`;
}

function deletion({ type, deletes }: Definition): readonly string[] {
  return deletes === undefined ? [] : [`\`${type}\` (${deletes.join(', ')})`];
}

function row({ destination, name, reason }: { destination: string; name: string; reason: string }): string {
  return `| \`${destination}\` | ${name} | ${reason} |`;
}

function section(category: string, definitions: readonly Definition[]): string {
  const rows = definitions.map(
    ({ type, title, sentence, properties, required, hasTest, needs }) =>
      `| \`${type}\` | ${title}${hasTest ? '' : ' †'} | ${sentence}${needs === undefined ? '' : ` Needs ${needs.map((name) => `\`${name}\``).join(', ')}.`} | ${settings(properties, required)} |`,
  );
  return [
    `## ${category}`,
    ['| type | name | what for | settings |', '|---|---|---|---|', ...rows].join('\n'),
  ].join('\n\n');
}

function settings(properties: Readonly<Record<string, JsonObject>>, required: readonly string[]): string {
  const names = Object.entries(properties).map(([name, { writeOnly }]) => {
    const shown = `\`${name}\`${writeOnly === true ? '\\*' : ''}`;
    return required.includes(name) ? `**${shown}**` : shown;
  });
  return names.join(', ');
}
