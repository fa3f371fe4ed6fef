import { setTimeout as sleep } from 'node:timers/promises';
import type { Sandbox } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { measured } from '../../../helpers/measured.ts';
import { FLOATING_REJECTIONS, HOSTILE_REJECTIONS } from './hostile-rejections.ts';
import { HOSTILE_SNIPPETS } from './hostile-snippets.ts';
import { type NeighbourFigures, NeighbourLoad } from './neighbour-load.ts';
import { badOn, HONEST, input, inputs, messageIn, outcomes, output, program } from './transformations.ts';

/** The longest time this process may be unable to react while hostile code runs. Generous: the machine is shared. */
const MAX_PAUSE_MS = 1_500;

/** The time for which a neighbour is measured alone before each piece of hostile code, ms. */
const QUIET_MS = 100;
/** A p99 below this is caused by the machine: two busy cores wake up a process later, ms. */
const LEAST_P99_MS = 10;
/** For two further measurements on a busy machine, ms. */
const MEASURING_MS = 600_000;
const SNIPPETS = [...HOSTILE_SNIPPETS, ...FLOATING_REJECTIONS, ...HOSTILE_REJECTIONS];
/** The workspace of all hostile code. */
const HOSTILE = 'hostile';

/** Any user code gets the right error for itself alone; the host and its neighbours go on. */
export function describeHostileCode(engine: string, open: () => Sandbox): void {
  describe(`Hostile code in the sandbox on ${engine}`, () => {
    let sandbox: Sandbox;
    let load: NeighbourLoad;
    const neighbour = program(HONEST);
    beforeAll(async () => {
      sandbox = open();
      load = new NeighbourLoad(sandbox);
      load.start();
      await sleep(1_000);
    });
    afterAll(() => sandbox.close());

    /** Runs hostile code after a time in which the neighbour is measured without it. */
    async function runBeside(measuring: NeighbourLoad, does: string) {
      measuring.turn = 'quiet';
      await sleep(QUIET_MS);
      measuring.turn = 'beside';
      return sandbox.run(badOn(does, HOSTILE), inputs(3, [1]));
    }

    it.each(SNIPPETS)('$name', async ({ does, ends }) => {
      const pause = watchPauses();
      const results = await runBeside(load, does);
      expect(messageIn(results[1])).not.toContain('escaped');
      expect(ends).toContain(outcomes(results)[1]);
      expect(outcomes(results)[0]).toBe('ok');
      expect(outcomes(results)[2]).toBe('ok');
      for (const index of [0, 2]) {
        if (results[index]?.ok) expect(output(results[index])?.user_id).toBe(`u${index}`);
      }
      expect(outcomes(await sandbox.run(neighbour, inputs(3)))).toEqual(['ok', 'ok', 'ok']);
      expect(pause()).toBeLessThan(MAX_PAUSE_MS);
    });

    /** Measures the neighbour beside all snippets once more. */
    async function measureAgain(): Promise<NeighbourFigures> {
      const again = new NeighbourLoad(sandbox);
      again.start();
      await sleep(1_000);
      for (const { does } of SNIPPETS) {
        await runBeside(again, does);
        await sandbox.run(neighbour, inputs(3));
      }
      return again.stop();
    }

    it(
      'does not double the p99 of another workspace',
      async () => {
        const boundOf = ({ quiet }: NeighbourFigures) => 2 * Math.max(quiet.p99, LEAST_P99_MS);
        let first: NeighbourFigures | undefined = await load.stop();
        const measure = async () => {
          const figures = first ?? (await measureAgain());
          first = undefined;
          const { quiet, beside } = figures;
          console.log(
            `another workspace: p99 ${beside.p99.toFixed(2)} ms beside hostile code, ${quiet.p99.toFixed(2)} ms without; p50 ${beside.p50.toFixed(2)} ms, ${beside.runs} runs`,
          );
          expect(quiet.failed + beside.failed).toBe(0);
          expect(beside.runs).toBeGreaterThan(1_000);
          return figures;
        };
        const figures = await measured(measure, (each) => each.beside.p99 <= boundOf(each));
        expect(figures.beside.p99).toBeLessThanOrEqual(boundOf(figures));
      },
      MEASURING_MS,
    );

    it('fails a program that repeatedly kills its process, and runs other programs', async () => {
      const killer = sandbox.run(badOn('new Array(1e9).fill(0)'), inputs(50, [...Array(50).keys()]));
      expect(outcomes(await sandbox.run(neighbour, [input(1)]))).toEqual(['ok']);
      const results = await killer;
      expect(new Set(outcomes(results).filter((outcome) => outcome !== 'timeout'))).toEqual(
        new Set(outcomes(results).includes('memory') ? ['memory'] : []),
      );
      expect(messageIn(results.at(-1))).toContain('3 times in a row');
    });

    it('fails no program for a process that another program killed', async () => {
      const killer = sandbox.run(badOn('new Array(1e9).fill(0)'), inputs(2, [0]));
      const neighbours = Array.from({ length: 5 }, () => sandbox.run(program(HONEST), inputs(250)));
      for (const results of await Promise.all(neighbours)) {
        expect(outcomes(results).every((outcome) => outcome === 'ok')).toBe(true);
      }
      expect(outcomes(await killer)[1]).toBe('ok');
    });

    it('fails the events, not the host, when the source itself is hostile', async () => {
      for (const [source, kind] of [
        ['for (;;);', /timeout/],
        ['new Array(1e9).fill(0)', /timeout|memory/],
        ['const all = []; for (;;) all.push(new Array(1e6).fill(1))', /timeout|memory/],
        ['Object.defineProperty(globalThis, "transform", { get() { for (;;); } })', /compile/],
        ['}); for (;;); (function () {', /compile/],
      ] as const) {
        const results = await sandbox.run(program(source), inputs(2));
        expect(outcomes(results)[0]).toMatch(kind);
        expect(outcomes(results)[1]).toMatch(kind);
      }
      expect(outcomes(await sandbox.run(neighbour, [input(1)]))).toEqual(['ok']);
    });
  });
}

/** Measures the time that this process could not run; returns the longest pause so far, ms. */
function watchPauses(): () => number {
  let last = performance.now();
  let longest = 0;
  const note = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(note, 10);
  return () => {
    clearInterval(timer);
    note();
    return longest;
  };
}
