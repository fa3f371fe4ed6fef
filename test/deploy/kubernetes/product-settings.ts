import { ranHere } from '../../helpers/run-cli.ts';

/** The settings that `tributary config` prints: names, and which of them may be in a file. */
export async function settings() {
  const { output } = await ranHere(['config'], {});
  const rows = [...output.matchAll(/^\| `([A-Z_]+)` .*$/gm)].map(([row, name = '']) => ({ row, name }));
  const secrets = rows.filter(({ row, name }) => row.includes(`\`${name}_FILE\``)).map(({ name }) => name);
  const files = rows.filter(({ name }) => name.endsWith('_FILE')).map(({ name }) => name.slice(0, -5));
  return { names: new Set(rows.map(({ name }) => name)), secrets, files };
}
