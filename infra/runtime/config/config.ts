import { combinationFaults } from './combinations.ts';
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
const NOT_OURS = 'TRIBUTARY_TEST_';

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
  for (const [key, setting] of Object.entries(SETTINGS)) {
    const parsed = setting.parse(environment[setting.name] || setting.fallback);
    if (parsed.ok) values[key] = parsed.value;
    else problems.push(`${setting.name} ${parsed.message}`);
  }
  for (const [key, why] of Object.entries(needed)) {
    const { name } = SETTINGS[key as Key];
    if (!environment[name]) problems.push(`${name} is needed: ${why}`);
  }
  problems.push(...unknownNames(environment));
  const given = (key: Key) => !['', SETTINGS[key].fallback].includes(environment[SETTINGS[key].name] ?? '');
  problems.push(...combinationFaults(given, (key) => SETTINGS[key].name, values as Partial<Config>));
  if (problems.length > 0) throw new ConfigError(problems);
  return values as Config; // every key of SETTINGS was parsed above
}

function unknownNames(environment: Environment): readonly string[] {
  const known = new Set<string>(Object.values(SETTINGS).map((setting) => setting.name));
  return Object.keys(environment)
    .filter((name) => OURS.some((start) => name.startsWith(start)))
    .filter((name) => !name.startsWith(NOT_OURS) && !known.has(name))
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
