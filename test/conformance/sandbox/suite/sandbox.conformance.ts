import { MAX_EVENT_BYTES, MAX_OUTPUTS, OUTPUT_ROOM_BYTES, type Sandbox, Unavailable } from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { measured } from '../../../helpers/measured.ts';
import { badOn, HONEST, input, inputs, messageIn, outcomes, output, program } from './transformations.ts';

/**
 * The contract of the `Sandbox` port. `open` creates a sandbox with a single worker, so that all programs
 * share it.
 */
export function describeSandbox(engine: string, open: () => Sandbox): void {
  describe(`Sandbox on ${engine}`, () => {
    let sandbox: Sandbox;
    beforeAll(() => {
      sandbox = open();
    });
    afterAll(() => sandbox.close());

    const one = async (source: string) => (await sandbox.run(program(source), [input(1)]))[0];

    describe('run', () => {
      it('answers for every input, in order', async () => {
        const results = await sandbox.run(program(HONEST), inputs(1_234));
        expect(results.map((result) => output(result)?.user_id)).toEqual(
          Array.from({ length: 1_234 }, (_, n) => `u${n}`),
        );
      });

      it('hands the event and the context over', async () => {
        const result = await one(
          `function transform(event, { environment }) { return { ...event, environment } }`,
        );
        expect(output(result)).toMatchObject({ type: 'track', user_id: 'u1', environment: 'production' });
      });

      it('keeps every character, paired or not', async () => {
        const text = 'ä€𝄞"\\\n\u2028\u0000';
        const event = JSON.stringify({ type: 'track', user_id: text, event: '\ud800' });
        const [first, second] = await sandbox.run(program(`const transform = (event) => event`), [
          { ...input(1), event },
          input(2),
        ]);
        expect(output(first)?.user_id).toBe(text);
        expect(output(second)?.user_id).toBe('u2');
      });

      it.each([
        ['a declared function', `function transform(event) { return event }`],
        ['a constant', `const transform = (event) => event`],
        ['an async function', `async function transform(event) { await null; await 0; return event }`],
        ['a thenable', `const transform = (event) => ({ then(resolve) { resolve(event) } })`],
      ])('takes %s', async (_, source) => {
        expect(output(await one(source))?.user_id).toBe('u1');
      });

      it('drops the event for null and for an empty array', async () => {
        for (const value of ['null', '[]']) {
          expect(await one(`const transform = () => (${value})`)).toMatchObject({ ok: true, outputs: [] });
        }
      });

      it(`takes up to ${MAX_OUTPUTS} outputs and no more`, async () => {
        const many = (count: number) => `const transform = (event) => Array(${count}).fill(event)`;
        expect(await one(many(MAX_OUTPUTS))).toMatchObject({ ok: true, outputs: { length: MAX_OUTPUTS } });
        expect(await one(many(MAX_OUTPUTS + 1))).toMatchObject({ ok: false, kind: 'output' });
      });

      it(`takes outputs of up to ${MAX_EVENT_BYTES} bytes, counted as UTF-8`, async () => {
        const sized = (bytes: number, filler: string) => `function transform({ type, user_id }) {
          const empty = JSON.stringify({ type, user_id, filler: '' }).length;
          const room = ${bytes} - empty;
          const each = ${Buffer.byteLength(filler)};
          return { type, user_id, filler: 'x'.repeat(room % each) + ${JSON.stringify(filler)}.repeat(Math.floor(room / each)) };
        }`;
        for (const filler of ['x', 'é', '€', '𝄞']) {
          const fits = await one(sized(MAX_EVENT_BYTES, filler));
          expect(fits).toMatchObject({ ok: true });
          expect(Buffer.byteLength(fits?.ok ? (fits.outputs[0] ?? '') : '')).toBe(MAX_EVENT_BYTES);
          expect(await one(sized(MAX_EVENT_BYTES + 1, filler))).toMatchObject({ ok: false, kind: 'output' });
        }
      });

      it('takes an output as large as its event, where that is larger, and a little more', async () => {
        const event = JSON.stringify({
          type: 'track',
          user_id: 'u',
          filler: '€'.repeat(MAX_EVENT_BYTES / 2),
        });
        const grown = async (bytes: number) => {
          const source = `const transform = (event) => ({ ...event, filler: event.filler + 'x'.repeat(${bytes}) })`;
          return (await sandbox.run(program(source), [{ ...input(1), event }, input(2)]))[0];
        };
        expect(await grown(OUTPUT_ROOM_BYTES)).toMatchObject({ ok: true });
        const most = Buffer.byteLength(event) + OUTPUT_ROOM_BYTES;
        expect(await grown(OUTPUT_ROOM_BYTES + 1)).toMatchObject({
          kind: 'output',
          message: `the output exceeds ${most} bytes`,
        });
      });

      it.each([
        ['nothing', 'undefined', 'undefined'],
        ['a number', '42', 'a number'],
        ['a text', '"event"', 'a string'],
        ['a boolean', 'true', 'a boolean'],
        ['a bigint', '1n', 'a bigint'],
        ['a symbol', 'Symbol("x")', 'a symbol'],
        ['a function', '() => event', 'a function'],
        ['a nested array', '[[event]]', 'an array'],
        ['an array with null', '[event, null]', 'null'],
        ['an array with a number', '[event, 1]', 'a number'],
        ['an array with holes', '[event, , event]', 'undefined'],
        ['a bigint inside', '({ ...event, n: 1n })', 'BigInt'],
        ['a cycle', '((event.self = event), event)', 'circular'],
        ['a date', 'new Date()', 'not an object'],
        ['toJSON to an array', '({ ...event, toJSON: () => [] })', 'not an object'],
        ['toJSON to nothing', '({ ...event, toJSON: () => undefined })', 'JSON'],
      ])('refuses %s, saying so', async (_, value, said) => {
        const result = await one(`function transform(event) { return ${value} }`);
        expect(result).toMatchObject({ ok: false, kind: 'output' });
        expect(messageIn(result)).toContain(said);
      });

      it('states the thrown error and its line', async () => {
        const thrown = await one(
          'function transform(event) {\n  const a = 1;\n  return event.nothing.there;\n}',
        );
        expect(thrown).toMatchObject({ ok: false, kind: 'threw' });
        expect(messageIn(thrown)).toMatch(/^TypeError: .*there.*\(line 3\)$/);
        expect(thrown).toMatchObject({ line: 3, column: 24 });
        expect(await one('const transform = (event) => event.a.b')).toMatchObject({ line: 1, column: 38 });
        const rejected = await one(
          'async function transform(event) {\n  await 1;\n  throw new Error("late");\n}',
        );
        expect(messageIn(rejected)).toBe('Error: late (line 3)');
        expect(messageIn(await one('const transform = () => { throw "plain" }'))).toBe('plain');
      });

      it('cuts a long message to 500 characters and a line', async () => {
        const result = await one('const transform = () => { throw new Error("x".repeat(1e6)) }');
        expect(messageIn(result)).toMatch(/^Error: x{493} \(line 1\)$/);
      });

      it('reports a promise that never settles as an error, and continues', async () => {
        const stuck = badOn('return new Promise(() => {});');
        const results = await sandbox.run(stuck, inputs(5, [2]));
        expect(outcomes(results)).toEqual(['ok', 'ok', 'threw', 'ok', 'ok']);
        expect(messageIn(results[2])).toBe('promise never settled');
      });

      it('fails an input that is no JSON, and that one alone', async () => {
        const [first, second, third] = await sandbox.run(program(HONEST), [
          input(1),
          { ...input(2), event: '{"type":"track"},{}' },
          input(3),
        ]);
        expect(outcomes([first, second, third].filter((result) => result !== undefined))).toEqual([
          'ok',
          'threw',
          'ok',
        ]);
      });

      it('states how long an event took', async () => {
        const busy =
          'const transform = (event) => { for (let i = 0; i < 2e7; i++) event.n = i % 7; return event }';
        const result = await one(busy);
        expect(result?.durationMs).toBeGreaterThanOrEqual(5);
        expect((await one(HONEST))?.durationMs).toBeLessThan(100);
        expect((await one(HONEST))?.loadMs).toBeGreaterThan(0);
      });

      it.each([
        ['does not compile', 'function transform(event) {\n  return }}', /^SyntaxError: .*\(line 2\)$/],
        [
          'throws while it loads',
          'const a = 1;\nnull.x; function transform() {}',
          /^TypeError: .*\(line 2\)$/,
        ],
        ['has no transform', 'const other = 1', /no function transform/],
        ['has a transform that is none', 'const transform = {}', /no function transform/],
      ])('fails every event of a source that %s', async (_, source, said) => {
        const results = await sandbox.run(program(source), inputs(3));
        expect(outcomes(results)).toEqual(['compile', 'compile', 'compile']);
        expect(messageIn(results[1])).toMatch(said);
      });
    });

    describe('a bad event', () => {
      it.each([
        ['throws', 'throw new Error("bad")', /threw/],
        ['returns nonsense', 'return 7', /output/],
        ['never ends', 'for (;;);', /timeout/],
        ['takes all memory', 'const all = []; for (;;) all.push(new Array(1e6).fill(1))', /memory|timeout/],
      ])('that %s costs only itself', async (_, statements, kind) => {
        const results = await sandbox.run(badOn(statements), inputs(300, [150]));
        expect(outcomes(results).filter((outcome) => outcome === 'ok')).toHaveLength(299);
        expect(outcomes(results)[150]).toMatch(kind);
      });

      it('takes at most about twice its budget', async () => {
        const loop = badOn('for (;;);');
        await sandbox.run(loop, [input(1)]);
        const tookMs = async () => {
          const began = performance.now();
          await sandbox.run(loop, inputs(3, [1]));
          return performance.now() - began;
        };
        // A worker that waits for a processor gets the time again.
        expect(await measured(tookMs, (ms) => ms < 1_000)).toBeLessThan(1_000);
      });

      it('delays another program by a bounded time', async () => {
        const delayMs = async () => {
          const endless = sandbox.run(badOn('for (;;);'), inputs(8, [...Array(8).keys()]));
          const began = performance.now();
          const neighbour = await sandbox.run(program(HONEST), [input(1)]);
          const ms = performance.now() - began;
          expect(outcomes(neighbour)).toEqual(['ok']);
          expect(new Set(outcomes(await endless))).toEqual(new Set(['timeout']));
          return ms;
        };
        expect(await measured(delayMs, (ms) => ms < 1_500)).toBeLessThan(1_500);
      });
    });

    describe('isolation', () => {
      it('passes nothing from one program to another', async () => {
        const leave = `for (const place of [globalThis, Object.prototype, Array])
          try { place.left = 'secret'; } catch {}`;
        await sandbox.run(
          program(`${leave} const transform = (event) => { ${leave} return event }`),
          inputs(3),
        );
        const look = '[globalThis.left, ({}).left, Array.left].some((found) => found !== undefined)';
        const result = await one(`const transform = (event) => ({ ...event, found: ${look} })`);
        expect(output(result)?.found).toBe(false);
      });

      it('gives no network, files, environment, timers, modules or shared memory', async () => {
        const names =
          'process require module exports global Buffer fetch XMLHttpRequest WebSocket setTimeout setInterval setImmediate queueMicrotask performance importScripts ivm isolated_vm SharedArrayBuffer Atomics WebAssembly';
        const result = await one(`function transform(event) {
          const found = ${JSON.stringify(names.split(' '))}.filter((name) => name in globalThis);
          return { ...event, found };
        }`);
        expect(output(result)?.found).toEqual([]);
      });

      it('refuses to import', async () => {
        const result = await one(
          `const transform = async (event) => { await import('node:fs'); return event }`,
        );
        expect(result).toMatchObject({ ok: false, kind: 'threw' });
      });
    });

    describe('logs', () => {
      const talkative = () =>
        program(`function transform(event) {
          console.log('n', event.properties.n, { a: [1] }); console.warn(null, undefined, 1n, Symbol('s'));
          console.error(new Error('oops')); return event }`);

      it('are kept with their event when asked for', async () => {
        const results = await sandbox.run(talkative(), inputs(2), { captureLogs: true });
        expect(results.map(({ logs }) => logs[0]?.text)).toEqual(['n 0 {"a":[1]}', 'n 1 {"a":[1]}']);
        expect(results[0]?.logs).toMatchObject([
          { level: 'info' },
          { level: 'warn' },
          { level: 'error', text: expect.stringContaining('oops') },
        ]);
      });

      it('are kept of an event that fails', async () => {
        const source = 'function transform() { console.log("before"); throw new Error("x") }';
        const [result] = await sandbox.run(program(source), [input(1)], { captureLogs: true });
        expect(result).toMatchObject({ ok: false, logs: [{ level: 'info', text: 'before' }] });
      });

      it('are bounded', async () => {
        const flood =
          'function transform(event) { for (let i = 0; i < 5000; i++) console.log("x".repeat(5000)); return event }';
        const [result] = await sandbox.run(program(flood), [input(1)], { captureLogs: true });
        expect(result?.logs).toHaveLength(100);
        expect(Math.max(...(result?.logs ?? []).map(({ text }) => text.length))).toBe(1024);
      });
    });

    describe('check', () => {
      it.each([
        ['does not parse', 'function transform( {', /SyntaxError/],
        ['declares twice', 'const a = 1;\nconst a = 2; function transform() {}', /\(line 2\)$/],
        ['has no transform', 'const other = 1', /no function transform/],
        ['throws what cannot be read', 'throw { get message() { throw 1 } }', /./],
        ['never ends', 'for (;;); function transform() {}', /longer than 100 ms/],
        ['takes all memory', 'const all = []; for (;;) all.push(new Array(1e6).fill(1));', /memory|longer/],
        ['is nested too deep', '('.repeat(100_000), /./],
      ])('states the fault of a source that %s', async (_, source, said) => {
        expect((await sandbox.check(program(source)))?.message).toMatch(said);
      });

      it('states the line of the fault', async () => {
        const source = 'const a = 1;\nconst transform = (event) => event;\n  nothing.there();';
        expect(await sandbox.check(program(source))).toMatchObject({ line: 3, column: 3 });
        expect(await sandbox.check(program('const a = 1;\nconst a = 2;'))).toMatchObject({ line: 2 });
      });
    });

    describe('close', () => {
      it('settles pending runs', async () => {
        const closing = open();
        const pending = closing.run(badOn('for (;;);'), inputs(50, [...Array(50).keys()]));
        const settled = expect(pending).rejects.toBeInstanceOf(Unavailable);
        await closing.close();
        await settled;
        await expect(closing.run(program(HONEST), [input(1)])).rejects.toBeInstanceOf(Unavailable);
        await expect(closing.check(program(HONEST))).rejects.toBeInstanceOf(Unavailable);
      });
    });
  });
}
