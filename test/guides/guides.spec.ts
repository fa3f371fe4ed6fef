import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inherited } from '../helpers/child-environment.ts';
import { eventually } from '../helpers/client.ts';
import { startTributary, type Tributary } from '../helpers/tributary.ts';
import { findProgram, pythonWithSdks } from '../sdks/programs.ts';
import { type Block, blocksOf, filledIn, isShown } from './blocks.ts';

const run = promisify(execFile);
const python = findProgram('python3');

/** Runs the commands of a guide. Blocks of one language share their variables, as in one terminal. */
describe('a guide', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    tributary = await startTributary();
  });
  afterAll(() => tributary.remove());

  const filled = ({ text }: Block) =>
    filledIn(text, {
      'http://127.0.0.1:8080': tributary.url,
      '<workspace>': tributary.workspaceId,
      '<write key>': tributary.writeKey,
      '<ID token>': tributary.idToken,
    });

  /** The output of each block, in a shell that runs them one after the other. */
  async function shell(blocks: readonly Block[]): Promise<readonly string[]> {
    const script = blocks.map(filled).join('\nprintf "\\0"\n');
    const { stdout } = await run('bash', ['-euc', script], { env: { ...process.env, ...inherited() } });
    return stdout.split('\0');
  }

  async function expectShown(blocks: readonly Block[]): Promise<void> {
    const outputs = await shell(blocks.filter(({ language }) => language === 'sh'));
    blocks.forEach(({ language, text }, at) => {
      if (language !== 'json') return;
      const output = outputs[blocks.slice(0, at).filter((block) => block.language === 'sh').length - 1];
      expect(isShown(text, output ?? ''), `${text} is not ${output}`).toBe(true);
    });
  }

  const ordersOf = async () =>
    (await tributary.owner.get<readonly { event_name: string; event_count: number }[]>('./event-volume'))
      .filter(({ event_name }) => event_name === 'Order Completed')
      .reduce((sum, { event_count }) => sum + event_count, 0);

  async function expectOneOrderMore(act: () => Promise<unknown>): Promise<void> {
    const before = await ordersOf();
    await act();
    await eventually(ordersOf, (orders) => orders === before + 1);
  }

  it('to begin with shows what happens', async () => {
    const blocks = blocksOf('first-event');
    expect(new Set(blocks.map(({ language }) => language))).toEqual(new Set(['console', 'sh', 'json']));
    expect(blocks.filter(({ language }) => language === 'console')).toMatchObject([
      { text: 'npm ci && npm start\n' },
    ]);
    await expectShown(blocks);
  });

  describe('from Segment or RudderStack', () => {
    const blocks = blocksOf('server-sdks');
    const of = (wanted: string) => blocks.filter(({ language }) => language === wanted);

    // test/sdks/browser.long.spec.ts runs the page; test/gateway/events/segment-callers.spec.ts tests the headers
    // that nginx sends.
    it('has no block in a language that no test runs', () => {
      const languages = new Set(blocks.map(({ language }) => language));
      expect(languages).toEqual(new Set(['js', 'python', 'sh', 'json', 'html', 'nginx']));
    });

    it('sends with Node, each SDK', async () => {
      const cwd = new URL('..', import.meta.url).pathname;
      expect(of('js')).toHaveLength(2);
      for (const block of of('js'))
        await expectOneOrderMore(() =>
          run(process.execPath, ['--input-type=module', '--eval', filled(block)], { cwd, env: inherited() }),
        );
    });

    it('sends with curl', async () => {
      await expectOneOrderMore(() => expectShown(blocks));
    });

    it.skipIf(python === undefined)('sends with Python', async () => {
      const command = pythonWithSdks(python ?? '');
      expect(of('python')).toHaveLength(1);
      for (const block of of('python'))
        await expectOneOrderMore(() => run(command, ['-c', filled(block)], { env: inherited() }));
    });
  });
});
