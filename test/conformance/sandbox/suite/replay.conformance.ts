import type { Sandbox, SandboxInput, SandboxResult } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AT, input, inputs, messageIn, outcomes, output, program } from './transformations.ts';

/** The result of an event of a program below must depend on the event alone. */
const CURIOUS = `
  let count = 0;
  const cache = new Map();
  const later = [];
  function transform(event, context) {
    const { n, bad } = event.properties;
    cache.set(n, ++count);
    const stack = Object.getOwnPropertyDescriptor(new Error('x'), 'stack');
    const left = [globalThis.left, Array.prototype.left, context.left, transform.left, ({}).left, later.length,
      stack.get?.left, stack.set?.left];
    transform.left = n;
    later.push(n);
    for (const place of [globalThis, Array.prototype, context, Object, RegExp, Math, console.log, stack.get ?? {}, stack.set ?? {}])
      try { place.left = n; } catch {}
    Promise.resolve().then(() => { for (let i = 0; i < n; i++) Math.random(); });
    if (bad) new Array(1e9).fill(0);
    /(\\d+)/.exec('n' + n);
    return { ...event, properties: {
      n, left, size: cache.size, count, matched: RegExp.$1 ?? null, random: [Math.random(), Math.random()],
      date: new Date(), now: Date.now(), text: Date(), local: new Date(0).toString(), context,
      shown: [new Intl.DateTimeFormat().format(), new Intl.DateTimeFormat('de', { timeStyle: 'long' }).format()],
      sorted: ['b', 'Z', 'a', 'ä'].sort(new Intl.Collator().compare), stack: new Error('x').stack,
    } };
  }`;

const TRIES: readonly (readonly [name: string, source: string])[] = [
  ['a function', CURIOUS],
  ['an async function', CURIOUS.replace('function transform', 'async function transform')],
  [
    'an async function that leaves work behind and draws late',
    CURIOUS.replace('function transform', 'async function transform').replace(
      'if (bad)',
      'for (let i = 0; i < 5; i++) await 0; if (bad)',
    ),
  ],
  [
    'an async function that leaves rejections behind',
    CURIOUS.replace('function transform', 'async function transform').replace(
      'if (bad)',
      `const late = async (turns) => { for (let i = 0; i < turns; i++) await 0; throw new Error('late'); };
       late(0); late(n); if (n % 2 === 0) await 0; if (bad)`,
    ),
  ],
  [
    'a function that is async for some events',
    `const plain = (() => { ${CURIOUS}; return transform; })();
     const transform = (event, context) =>
       event.properties.n % 3 === 0 ? Promise.resolve().then(() => plain(event, context)) : plain(event, context);`,
  ],
];

/** Each kill takes seconds, and a batch of any of them is continued by the same code. */
const KILLED = process.env.TRIBUTARY_TEST_LONG === undefined ? TRIES.slice(0, 1) : TRIES;

/** Reports its stack before and after an await, in its output and, for a bad event, in its error. */
const TRACING = `
  async function transform(event) {
    const seen = [new Error('before').stack, [1].map(() => new Error('inside').stack)];
    if (event.properties.n % 2 === 0) await 0;
    const { stack } = new Error('after');
    if (event.properties.bad) throw new Error(stack);
    return { ...event, seen: [...seen, stack] };
  }`;

/** The result of a run depends on its input alone. */
export function describeReplay(engine: string, open: () => Sandbox): void {
  describe(`A replay in the sandbox on ${engine}`, () => {
    let sandbox: Sandbox;
    beforeAll(() => {
      sandbox = open();
    });
    afterAll(() => sandbox.close());

    const outputsOf = (results: readonly SandboxResult[]) =>
      results.map((result) => (result.ok ? result.outputs : [result.kind]));

    it.each(TRIES)('gives the same for %s, in whatever company', async (_, source) => {
      const all = inputs(40);
      const once = outputsOf(await sandbox.run(program(source), all));
      expect(once.every(([first]) => first?.startsWith('{'))).toBe(true);
      const again = program(source);
      for (let round = 0; round < 2; round++) expect(outputsOf(await sandbox.run(again, all))).toEqual(once);
      const backwards = outputsOf(await sandbox.run(again, all.toReversed()));
      expect(backwards.toReversed()).toEqual(once);
      const alone: unknown[] = [];
      for (const one of all.slice(0, 10)) alone.push(...outputsOf(await sandbox.run(again, [one])));
      expect(alone).toEqual(once.slice(0, 10));
    });

    it('gives the same for an event that draws a random number and then throws, in the middle of a batch', async () => {
      const source = `async function transform(event) {
        const drawn = Math.random();
        if (event.properties.bad) throw new Error('drew ' + drawn);
        return { ...event, drawn };
      }`;
      const all = inputs(12, [0, 3, 4, 11]);
      const said = (results: readonly SandboxResult[]) =>
        results.map((result) => (result.ok ? result.outputs : messageIn(result)));
      const once = said(await sandbox.run(program(source), all));
      expect(once.filter((one) => String(one).startsWith('Error: drew 0.'))).toHaveLength(4);
      const again = program(source);
      expect(said(await sandbox.run(again, all.toReversed())).toReversed()).toEqual(once);
      for (const [at, one] of all.entries())
        expect(said(await sandbox.run(again, [one]))).toEqual([once[at]]);
    });

    it('gives the same for each of an owner’s programs, in turn with the others', async () => {
      const all = inputs(12);
      const sources = TRIES.map(([, source]) => source);
      const once: unknown[] = [];
      for (const source of sources) once.push(outputsOf(await sandbox.run(program(source), all)));
      const together = sources.map((source) => ({ one: program(source, 'owner'), got: [] as unknown[] }));
      for (const input of all)
        for (const { one, got } of together) got.push(...outputsOf(await sandbox.run(one, [input])));
      expect(together.map(({ got }) => got)).toEqual(once);
    });

    it.each(KILLED)('gives the same for %s when a worker is killed amid a batch', async (_, source) => {
      const good = outputsOf(await sandbox.run(program(source), inputs(12)));
      const killing = await sandbox.run(program(source), inputs(12, [5]));
      expect(outcomes(killing)[5]).toMatch(/memory|timeout/);
      const others = (_one: unknown, index: number) => index !== 5;
      expect(outputsOf(killing).filter(others)).toEqual(good.filter(others));
    });

    it('shows the same stack wherever in a batch an event stands, and none but of its own code', async () => {
      const said = (results: readonly SandboxResult[]) =>
        results.map((result) => (result.ok ? (output(result)?.seen as unknown) : messageIn(result)));
      const all = inputs(12, [0, 3, 4, 7, 11]);
      const once = said(await sandbox.run(program(TRACING), all));
      const again = program(TRACING);
      expect(said(await sandbox.run(again, all.toReversed())).toReversed()).toEqual(once);
      for (const [at, one] of all.entries())
        expect(said(await sandbox.run(again, [one]))).toEqual([once[at]]);
      for (const text of once.flat(2)) {
        expect(text).toMatch(/^(Error: )?Error: \w+\n {4}at .*transformation\.js:\d+:\d+/);
        expect(text).not.toMatch(/sandbox|drive|bootstrap/);
      }
    });

    it('finds nothing that an event before it left', async () => {
      const [, , third] = await sandbox.run(program(CURIOUS), inputs(3));
      expect(output(third)?.properties).toMatchObject({
        left: [null, null, null, null, null, 0, null, null],
        size: 1,
        count: 1,
        matched: null,
      });
    });

    it('runs at the time of the input, in UTC and en-US', async () => {
      const [result] = await sandbox.run(program(CURIOUS), [input(1)]);
      expect(output(result)?.properties).toMatchObject({
        date: new Date(AT).toISOString(),
        now: AT,
        text: 'Tue Feb 03 2026 04:05:06 GMT+0000 (Coordinated Universal Time)',
        local: 'Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)',
        shown: ['2/3/2026', '04:05:06 UTC'],
        sorted: ['a', 'ä', 'b', 'Z'],
      });
    });

    it('draws the numbers of its seed, which look random', async () => {
      const draw = program(
        'const transform = (event) => ({ ...event, drawn: Array.from({ length: 1000 }, Math.random) })',
      );
      const seeded = (seed: string): SandboxInput => ({ ...input(1), seed });
      const results = await sandbox.run(draw, [seeded('a'), seeded('b'), seeded('a'), seeded('')]);
      const [first, second, third, fourth] = results.map((result) => output(result)?.drawn as number[]);
      expect(third).toEqual(first);
      expect(second).not.toEqual(first);
      for (const drawn of [first ?? [], second ?? [], fourth ?? []]) {
        expect(new Set(drawn).size).toBe(1000);
        expect(drawn.every((number) => number >= 0 && number < 1)).toBe(true);
        expect(Math.abs(drawn.reduce((sum, number) => sum + number, 0) / 1000 - 0.5)).toBeLessThan(0.05);
      }
    });

    it('lets classes and objects override built-in members', async () => {
      const source = `
        class Wrong extends Error { constructor(text) { super(text); this.name = 'Wrong'; } }
        function Old() {} Old.prototype.toString = function () { return 'old'; };
        function Child() {} Child.prototype = Object.create(Old.prototype); Child.prototype.constructor = Child;
        function transform(event) {
          const counts = {}; counts.toString = 1; counts['constructor'] = 2; counts.valueOf = 3;
          const wrong = new Wrong('w'); wrong.message = 'changed';
          return { ...event, seen: [counts, String(new Child()), new Child().constructor === Child, wrong.name, wrong.message,
            String(wrong), Object.keys({ ...counts }).length] } }`;
      const [result] = await sandbox.run(program(source), [input(1)]);
      expect(messageIn(result)).toBe('');
      expect(output(result)?.seen).toEqual([
        { toString: 1, constructor: 2, valueOf: 3 },
        ...['old', true, 'Wrong', 'changed', 'Wrong: changed', 3],
      ]);
    });

    it('refuses to change the context, at any depth', async () => {
      for (const change of [
        'context.environment = 1',
        'context.more.deep = 1',
        'delete context.environment',
      ]) {
        const [result] = await sandbox.run(
          program(`function transform(event, context) { ${change}; return event }`),
          [{ ...input(1), context: '{"environment":"x","more":{"deep":[1]}}' }],
        );
        expect(outcomes(result === undefined ? [] : [result])).toEqual(['threw']);
      }
    });
  });
}
