import { readFileSync } from 'node:fs';
import { combinationFaults } from './combinations.ts';
import type { Setting } from './setting.ts';
import { type Config, SETTINGS } from './settings.ts';

/** The environment variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Everything that is wrong with the environment, reported at once. */
export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`the configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** What begins like this is meant for Tributary; not so names that a platform sets for its services, e.g. `KAFKA_PORT`. */
const OURS = ['TRIBUTARY_', 'KAFKA_TLS', 'KAFKA_SASL', 'ELASTICSEARCH_TLS'];

type Key = keyof typeof SETTINGS;

/**
 * Reads and checks the whole environment once. Names that look like ours and are not known are refused too; `needed`
 * says why a variable must be there, of those this process cannot do without.
 */
export function readConfig(
  environment: Environment,
  needed: Readonly<Partial<Record<Key, string>>> = {},
): Config {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  const texts = withSecretFiles(environment, problems);
  for (const [key, setting] of Object.entries(SETTINGS)) {
    const parsed = setting.parse(texts[setting.name] || setting.fallback);
    if (parsed.ok) values[key] = parsed.value;
    else problems.push(`${setting.name} ${parsed.message}`);
  }
  for (const [key, why] of Object.entries(needed)) {
    const { name } = SETTINGS[key as Key];
    if (!texts[name]) problems.push(`${name} is needed: ${why}`);
  }
  problems.push(...unknownNames(environment));
  problems.push(
    ...combinationFaults(
      (key) => isGiven(SETTINGS[key], texts),
      (key) => SETTINGS[key].name,
      values as Partial<Config>,
    ),
  );
  if (problems.length > 0) throw new ConfigError(problems);
  return values as Config; // every key of SETTINGS was parsed above
}

/** Whether the environment sets it to something other than its default. */
function isGiven({ name, fallback, parse }: Setting<unknown>, environment: Environment): boolean {
  const text = environment[name] || fallback;
  if (text === fallback) return false;
  const [given, byDefault] = [parse(text), parse(fallback)];
  return !(given.ok && byDefault.ok && given.value === byDefault.value);
}

/** The environment with the secrets that are in files; what is wrong with those is added to `problems`. */
function withSecretFiles(environment: Environment, problems: string[]): Environment {
  const texts: Record<string, string | undefined> = { ...environment };
  for (const { name, isSecret } of Object.values<Setting<unknown>>(SETTINGS)) {
    const file = environment[`${name}_FILE`];
    if (!isSecret || !file) continue;
    if (environment[name]) problems.push(`${name} and ${name}_FILE exclude each other`);
    const secret = textOfFile(file);
    if (secret) texts[name] = secret;
    else problems.push(`${name}_FILE must name a file that can be read and is not empty, not ${file}`);
  }
  return texts;
}

/** Without the line break at its end, which editors and `echo` put there. */
function textOfFile(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
  } catch {
    return undefined;
  }
}

function unknownNames(environment: Environment): readonly string[] {
  const known = new Set(
    Object.values<Setting<unknown>>(SETTINGS).flatMap(({ name, isSecret }) =>
      isSecret ? [name, `${name}_FILE`] : [name],
    ),
  );
  return Object.keys(environment)
    .filter((name) => OURS.some((start) => name.startsWith(start)))
    .filter((name) => !known.has(name))
    .map((name) => `${name} is not a known variable`);
}

/** The reference of all variables, as a Markdown table. */
export function describeConfig(): string {
  const rows = Object.values(SETTINGS).map(
    ({ name, fallback, description }) =>
      `| \`${name}\` | ${fallback === '' ? '-' : `\`${fallback}\``} | ${description} |`,
  );
  return ['| variable | default | meaning |', '|---|---|---|', ...rows].join('\n');
}
