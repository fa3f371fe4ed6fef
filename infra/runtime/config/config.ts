import { MAX_JITTER, parseLadder } from '@tributary/core';
import { type Config, SETTINGS } from './settings.ts';

/** Everything that is wrong with the environment, said at once. */
export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`the configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** Reads and checks the whole environment once. Names that look like ours and are not known are refused too. */
export function readConfig(environment: Readonly<Record<string, string | undefined>>): Config {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [key, setting] of Object.entries(SETTINGS)) {
    const given = environment[setting.name];
    const parsed = setting.parse(given === undefined || given === '' ? setting.fallback : given);
    if (parsed.ok) values[key] = parsed.value;
    else problems.push(`${setting.name} ${parsed.message}`);
  }
  const known = new Set<string>(Object.values(SETTINGS).map((setting) => setting.name));
  for (const name of Object.keys(environment)) {
    if (name.startsWith('TRIBUTARY_') && !name.startsWith('TRIBUTARY_TEST_') && !known.has(name)) {
      problems.push(`${name} is not a known variable`);
    }
  }
  if (problems.length > 0) throw new ConfigError(problems);
  const config = values as Config; // every key of SETTINGS was parsed above
  const faults = crossFaults(config);
  if (faults.length > 0) throw new ConfigError(faults);
  return config;
}

/** What no variable shows alone. */
function crossFaults({ retention, retryExpiry, retryLadder, dedupeWindow }: Config): readonly string[] {
  const longest = Math.max(...parseLadder(retryLadder).map(({ ms }) => ms));
  const faults: string[] = [];
  if (retention < retryExpiry + longest * (1 + MAX_JITTER)) {
    faults.push(
      'TRIBUTARY_RETENTION must be longer than TRIBUTARY_RETRY_EXPIRY and the longest step of TRIBUTARY_RETRY_LADDER together',
    );
  }
  if (retention < dedupeWindow)
    faults.push('TRIBUTARY_RETENTION must not be shorter than TRIBUTARY_DEDUPE_WINDOW');
  return faults;
}

/** The reference of all variables, as a Markdown table. */
export function describeConfig(): string {
  const rows = Object.values(SETTINGS).map(
    ({ name, fallback, description }) =>
      `| \`${name}\` | ${fallback === '' ? '-' : `\`${fallback}\``} | ${description} |`,
  );
  return ['| variable | default | meaning |', '|---|---|---|', ...rows].join('\n');
}
