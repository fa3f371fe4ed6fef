import { describe, expect, it } from 'vitest';
import { ranHere } from '../helpers/run-cli.ts';

const COMMANDS = [
  'dev',
  'gateway',
  'processor',
  'topics',
  'positions',
  'redrive',
  'secrets',
  'secrets rotate',
  'catalog',
  'catalog rewrite',
  'upgrade',
  'adopt-stores',
  'token',
  'config',
];

const run = (line: string) => ranHere(line === '' ? [] : line.split(' '), {});

describe('the command line', () => {
  it('prints all commands without arguments', async () => {
    const { code, output, log } = await run('');
    expect({ code, log }).toEqual({ code: 0, log: '' });
    const names = COMMANDS.map((command) => command.split(' ')[0] ?? '');
    for (const name of names) expect(output).toMatch(new RegExp(`^  ${name} `, 'm'));
  });

  it.each(COMMANDS)('%s: had no --help and no --version', async (command) => {
    const help = await run(`${command} --help`);
    expect(help).toMatchObject({ code: 0, log: '' });
    expect(help.output).toMatch(new RegExp(`^Usage: tributary ${command} `));
    const version = await run(`${command} --version`);
    expect(version).toMatchObject({ code: 0, log: '' });
    expect(version.output).toMatch(/^\d+\.\d+\.\d+( \([0-9a-f]{12}\))?\n$/);
  });

  it('prints the version', async () => {
    const { code, output, log } = await run('--version');
    expect({ code, log }).toEqual({ code: 0, log: '' });
    expect(output).toMatch(/^\d+\.\d+\.\d+( \([0-9a-f]{12}\))?\n$/);
  });

  it.each(['unknown', 'secrets turn', 'catalog'])(
    'prints the commands that there are after "%s"',
    async (line) => {
      const { code, log } = await run(line);
      expect(code).toBe(2);
      expect(log).toMatch(/^ {2}(redrive|rotate|rewrite) /m);
    },
  );

  it.each([
    ['unknown', "tributary: unknown command 'unknown'"],
    ['dev --loud', "tributary dev: unknown option '--loud'"],
    ['gateway now', "tributary gateway: too many arguments for 'gateway'"],
    ['secrets rotate again', "tributary secrets rotate: too many arguments for 'rotate'"],
    ['secrets turn', "tributary secrets: unknown command 'turn'"],
    [
      'topics --print --format yaml',
      "tributary topics: option '--format <format>' argument 'yaml' is invalid.",
    ],
    ['topics --format table', 'tributary topics: --format and --cluster need --print'],
    ['token --email nobody', 'tributary token: --email must be an address'],
    ['adopt-stores --from x', 'tributary adopt-stores: --from must be the id of an installation, or none'],
    ['positions --stage route', 'tributary positions: --stage, --topic and --to go together'],
    ['processor', 'tributary processor: the configuration is not valid:\n  KAFKA_BROKERS is needed'],
  ])('refuses "%s" with code 2 and states the fault', async (line, message) => {
    const { code, output, log } = await run(line);
    expect({ code, output }).toEqual({ code: 2, output: '' });
    expect(log).toContain(message);
    expect(log).not.toMatch(/^ {4}at /m);
  });
});
