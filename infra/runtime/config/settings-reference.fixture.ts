import { ENGINE_SETTINGS, ISSUER_SETTINGS, MAIL_SETTINGS, TRACING_SETTINGS } from './engine-settings.ts';
import type { Setting } from './setting.ts';
import { LIMIT_SETTINGS, QUOTA_SETTINGS, SANDBOX_SETTINGS, SETTINGS } from './settings.ts';

type Settings = Readonly<Record<string, Setting<unknown>>>;

interface Part {
  readonly title: string;
  readonly text?: string;
  readonly settings: Settings;
}

const PARTS: readonly Part[] = [
  {
    title: 'Kafka, Redis, Elasticsearch and the schema registry',
    text: 'Without these, everything is kept on SQLite in the data folder. [engines-elsewhere.md](../operations/engines-elsewhere.md) has settings that work with managed engines.',
    settings: ENGINE_SETTINGS,
  },
  {
    title: 'Sign-in of people',
    text: 'The OpenID Connect issuers whose ID tokens are accepted.',
    settings: ISSUER_SETTINGS,
  },
  {
    title: 'Quotas and rates of changes',
    text: 'How much a tenant may have, and change in a second: [limits.md](limits.md).',
    settings: QUOTA_SETTINGS,
  },
  {
    title: 'Requests, connections and browsers',
    text: 'How fast a tenant may call: [limits.md](limits.md).',
    settings: LIMIT_SETTINGS,
  },
  { title: 'Transformations', settings: SANDBOX_SETTINGS },
  { title: 'Mail', text: 'Which mails there are: [mails.md](mails.md).', settings: MAIL_SETTINGS },
  {
    title: 'Tracing',
    text: '[tracing.md](../operations/tracing.md) shows how to switch it on.',
    settings: TRACING_SETTINGS,
  },
];

const INTRODUCTION = `# Settings

Every setting is an environment variable, here with its default in brackets; without one the variable is not set. \`tributary config\`
prints the same for the installed version. All commands read the whole environment at their start: a value that cannot be used, or
an unknown variable whose name begins with \`TRIBUTARY_\` or the name of an engine, ends the start with exit code 2 and a line for each
fault. Variables that Kubernetes and Docker set for services, and those of the engines' own tools (\`*_HOME\`, \`*_OPTS\`), are passed
over. Of a setting marked as secret, \`<name>_FILE\` may name the file that holds it.

Made from \`infra/runtime/config/settings.ts\` by \`infra/runtime/config/settings-reference.spec.ts\` with \`-u\`.`;

/** All settings in Markdown: \`docs/reference/settings.md\`. */
export function describeSettings(): string {
  const inParts = new Set(PARTS.flatMap(({ settings }) => Object.keys(settings)));
  const others = Object.fromEntries(
    Object.entries<Setting<unknown>>(SETTINGS).filter(([key]) => !inParts.has(key)),
  );
  const parts: readonly Part[] = [{ title: 'Processes, data and deliveries', settings: others }, ...PARTS];
  return `${[INTRODUCTION, ...parts.map(describePart)].join('\n\n')}\n`;
}

function describePart({ title, text, settings }: Part): string {
  const rows = Object.values(settings).map(
    ({ name, fallback, description }) =>
      `- \`${name}\`${fallback === '' ? '' : ` (\`${fallback}\`)`}: ${inMarkdown(description.replace(/ Or `\w+_FILE`: the file that holds it\.$/, ' Secret.'))}`,
  );
  return [`## ${title}`, ...(text === undefined ? [] : [text]), rows.join('\n')].join('\n\n');
}

/** Placeholders in angle brackets are no HTML. */
function inMarkdown(description: string): string {
  return description
    .split('`')
    .map((part, at) => (at % 2 === 0 ? part.replaceAll('<', '&lt;') : part))
    .join('`');
}
