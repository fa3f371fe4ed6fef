import { createHash, createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import ts from 'typescript';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { input, inputs, messageIn, output, program } from '../suite/transformations.ts';

/* Code that people paste into a transformation, with its assumptions about the environment. */

const sandbox = openIsolatedVmSandbox({ processes: 1, metrics: NO_METRICS, logger: NO_LOGGER });
afterAll(() => sandbox.close());
const find = createRequire(import.meta.url);

/** The value of `expression` in each of three runs in one batch; the third run gets the first event again. */
async function seenBy(expression: string, before = ''): Promise<readonly unknown[]> {
  const source = `${before}\n;const transform = async (event) => ({ ...event, seen: await (${expression}) });`;
  const results = await sandbox.run(program(source), [input(1), input(2), input(1)]);
  expect(results.map(messageIn)).toEqual(['', '', '']);
  return results.map((result) => output(result)?.seen);
}

async function expectSeen(expression: string, expected: unknown, before = ''): Promise<void> {
  expect(await seenBy(expression, before)).toEqual([expected, expected, expected]);
}

const LIBRARIES: readonly (readonly [file: string, uses: string, gives: unknown])[] = [
  [
    'lodash/lodash.min.js',
    `[_.merge({ a: { b: 1 } }, { a: { c: _.camelCase('Foo bar') } }), _.chain([3, 1]).sortBy().map((n) => n * 2).value(), _.template('<%= a %>!')({ a: 1 }), _.uniqueId()]`,
    [{ a: { b: 1, c: 'fooBar' } }, [2, 6], '1!', '1'],
  ],
  [
    'underscore/underscore-umd-min.js',
    `[_([1, 2]).chain().map((n) => n + 1).value(), _.uniqueId('c')]`,
    [[2, 3], 'c1'],
  ],
  [
    'js-sha256/build/sha256.min.js',
    `[sha256('ada@example.com') === crypto.sha256('ada@example.com'), sha256.hmac('k', 'm') === crypto.hmac('sha256', 'k', 'm')]`,
    [true, true],
  ],
  ['dayjs/dayjs.min.js', `dayjs('2026-01-31').add(1, 'month').format('YYYY-MM-DD')`, '2026-02-28'],
  [
    'qs/dist/qs.js',
    `[Qs.parse('a[b]=c&d[]=1'), Qs.stringify({ a: { b: [1] } })]`,
    [{ a: { b: 'c' }, d: ['1'] }, 'a%5Bb%5D%5B0%5D=1'],
  ],
  [
    'immutable/dist/immutable.min.js',
    `[Immutable.Map({ a: 1 }).set('b', 2), Immutable.List([1]).push(2), String(Immutable.OrderedSet(['x']))]`,
    [{ a: 1, b: 2 }, [1, 2], 'OrderedSet { "x" }'],
  ],
];

describe('libraries pasted into a transformation', () => {
  it.each(LIBRARIES)('include %s under its global name', async (file, uses, gives) => {
    await expectSeen(uses, gives, readFileSync(find.resolve(file), 'utf8'));
  });

  it('can use each other, in the order in which they are pasted', async () => {
    const pasted = `(function (root) { root.first = { one: 1 }; })(this);
      (function (root) { root.second = { two: root.first.one + first.one }; })(self);
      const third = second.two + 1;`;
    await expectSeen(
      '[third, self.second.two, globalThis.first.one, typeof window]',
      [3, 2, 1, 'undefined'],
      pasted,
    );
  });

  it('pass nothing to the next event, by a global object or a cache', async () => {
    const cache = `(function (root) { root.lib = { calls: 0, cache: new Map() }; })(this);
      lib.calls += 1; self.left ??= []; self.left.push(1); lib.use = (key) => [lib.cache.size, lib.cache.set(key, 1).size];`;
    await expectSeen(
      '[lib.calls, lib.use(event.user_id), self.left.length, (lib = { ...lib, more: 1 }).calls, (globalThis.late ??= 1, late_is())]',
      [1, [0, 1], 1, 1, 'undefined'],
      `${cache} const late_is = () => typeof late;`,
    );
  });

  it('cannot change the real global object, which evaluated text sees', async () => {
    const results = await sandbox.run(
      program(`function transform(event) { Function('return this')().leak = 1; return event; }`),
      inputs(2),
    );
    expect(results.map(messageIn).every((message) => message.startsWith('TypeError'))).toBe(true);
  });
});

describe('ordinary code in a frozen world', () => {
  it.each([
    [
      'a static of a function',
      `(() => { function L() {} L.bind = 1; L.call = 2; L.apply = 3; return [L.bind, L.call, L.apply]; })()`,
      [1, 2, 3],
    ],
    [
      'a method of an object that inherits from a built-in',
      `[[Array.prototype, 'push'], [Array.prototype, 'concat'], [Map.prototype, 'get'], [Set.prototype, 'add'], [WeakMap.prototype, 'get'], [Promise.prototype, 'catch'], [Iterator.prototype, Symbol.iterator], [Iterator.prototype, 'map'], [Uint8Array.prototype, 'slice'], [Date.prototype, 'toJSON'], [RegExp.prototype, 'constructor'], [Object.prototype, 'propertyIsEnumerable'], [(function* () {}).prototype, 'return']].map(([from, name]) => { const made = Object.create(from); made[name] = 7; return [made[name], from[name] === 7]; }).flat().join()`,
      Array(13).fill('7,false').join(),
    ],
    [
      'a static of a class that inherits from a built-in',
      `(() => { class L extends Array {} L.from = () => 'own'; class M extends Map {} M.groupBy = 1; return [L.from(), M.groupBy, Array.from([1])]; })()`,
      ['own', 1, [1]],
    ],
    [
      'an error of one’s own with the tools of Node',
      `(() => { function E(m) { this.message = m; Error.captureStackTrace?.(this, E); } E.prototype = Object.create(Error.prototype); E.prototype.constructor = E; E.prototype.name = 'E'; return [String(new E('x')), new E('x') instanceof Error]; })()`,
      ['E: x', true],
    ],
  ])('takes %s', (_, expression, expected) => expectSeen(expression, expected));

  it('runs generators, async functions and classes that TypeScript compiled to ES5', async () => {
    const source = `
      function* numbers(): Generator<number> { yield 1; yield* [2, 3]; }
      class Base { constructor(readonly n: number) {} twice(): number { return this.n * 2; } static make(): number { return 5; } }
      class Sub extends Base { twice(): number { return super.twice() + 1; } }
      class Fault extends Error { constructor(m: string) { super(m); Object.setPrototypeOf(this, Fault.prototype); this.name = 'Fault'; } }
      async function later(n: number): Promise<number> { await 0; return n; }
      const all = async () => {
        let sum = 0;
        for (const n of numbers()) sum += await later(n);
        const [first, ...rest] = [...numbers()];
        return [sum, first, rest, new Sub(2).twice(), Sub.make(), new Fault('f').name, { ...{ a: 1 } }];
      };`;
    const compilerOptions = {
      target: ts.ScriptTarget.ES5,
      downlevelIteration: true,
      ignoreDeprecations: '6.0',
    };
    const { outputText } = ts.transpileModule(source, { compilerOptions });
    expect(outputText).toContain('__generator');
    await expectSeen('all()', [6, 1, [2, 3], 5, 5, 'Fault', { a: 1 }], outputText);
  });

  it('cannot change a built-in, by any access to its property', async () => {
    for (const change of [
      'Array.prototype.push = 1',
      'Function.prototype.bind = 1',
      'Iterator.prototype[Symbol.iterator] = 1',
      `Object.getOwnPropertyDescriptor(Array.prototype, 'map').get.left = 1`,
      `Object.getOwnPropertyDescriptor(Array.prototype, 'map').get.originalValue.left = 1`,
      'Object.getPrototypeOf(globalThis).left = 1',
      'crypto.subtle.left = 1',
      'URL.prototype.left = 1',
      'CryptoKey.prototype.signature.left = 1',
      'structuredClone.left = 1',
      'new URLSearchParams("a=1").keys.left = 1',
    ]) {
      const [result] = await sandbox.run(program(`function transform(event) { ${change}; return event; }`), [
        input(1),
      ]);
      expect([change, messageIn(result)]).toEqual([change, expect.stringMatching(/^TypeError/)]);
    }
  });
});

describe('hashing in the sandbox', () => {
  const text = 'Zoë@Example.com 👋';
  it.each(['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512'])(
    '%s equals the result of Node',
    async (algorithm) => {
      const hashed = (encoding: 'hex' | 'base64' | 'base64url') =>
        createHash(algorithm).update(text).digest(encoding);
      await expectSeen(
        `[crypto.hash('${algorithm}', '${text}'), crypto.hash('${algorithm.toUpperCase()}', '${text}', 'base64'), crypto.hash('${algorithm}', new TextEncoder().encode('${text}'), 'base64url'), crypto.hash('${algorithm}', '${text}', 'bytes').length]`,
        [
          hashed('hex'),
          hashed('base64'),
          hashed('base64url'),
          createHash(algorithm).update(text).digest().length,
        ],
      );
      const hmac = createHmac(algorithm, 'Schlüssel').update(text).digest('hex');
      await expectSeen(`crypto.hmac('${algorithm}', 'Schlüssel', '${text}')`, hmac);
    },
  );

  it('has crypto.subtle’s digests and signatures', async () => {
    await expectSeen(
      `(async () => {
        const hex = (buffer) => Array.from(new Uint8Array(buffer), (b) => b.toString(16).padStart(2, '0')).join('');
        const bytes = new TextEncoder().encode('abc');
        const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-512' }, false, ['sign']);
        return [hex(await crypto.subtle.digest('SHA-256', bytes)), hex(await crypto.subtle.sign('HMAC', key, bytes.buffer))];
      })()`,
      [
        createHash('sha256').update('abc').digest('hex'),
        createHmac('sha512', 'abc').update('abc').digest('hex'),
      ],
    );
  });

  it('refuses unsupported values at the line of the call', async () => {
    for (const [asks, message] of [
      [`crypto.sha256(5)`, /^TypeError: what is hashed must be.*\(line 2\)$/],
      [`crypto.hash('whirlpool', 'a')`, /^NotSupportedError: cannot hash by whirlpool.*\(line 2\)$/],
      [`crypto.sha256('a', 'latin1')`, /^TypeError: the encoding.*\(line 2\)$/],
    ] as const) {
      const [result] = await sandbox.run(program(`function transform(event) {\n ${asks}; return event; }`), [
        input(1),
      ]);
      expect(messageIn(result)).toMatch(message);
    }
  });

  it('random values are derived from the event', async () => {
    const seen = await seenBy(
      '[crypto.randomUUID(), crypto.randomUUID(), ...crypto.getRandomValues(new Uint8Array(4))]',
    );
    expect(seen[0]).toEqual(seen[2]);
    expect(seen[0]).not.toEqual(seen[1]);
    expect((seen[0] as string[])[0]).toMatch(
      /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/,
    );
  });

  it('is stopped by the time limit of an event that only hashes', async () => {
    // On a busy machine that time may take long to pass: code that it does not stop would run until the test ends.
    const unwatched = openIsolatedVmSandbox({
      processes: 1,
      watchdogMs: 600_000,
      metrics: NO_METRICS,
      logger: NO_LOGGER,
    });
    onTestFinished(() => unwatched.close());
    const [result] = await unwatched.run(
      program(`function transform(event) { for (;;) { crypto.sha256('a'); new URL('https://a.de'); } }`),
      [input(1)],
    );
    expect(messageIn(result)).toMatch(/took longer than/);
  });
});

/** Each expression is evaluated here and in the sandbox, with the same result. */
describe('web APIs as Node implements them', () => {
  it.each([
    `[btoa('abc\\xff'), atob('YWJj/w=='), atob(' YQ = = '), btoa(''), atob('YWI')]`,
    `['ä', '👋', 'a\\ud800b', '\\ud83d', ''].map((text) => [...new TextEncoder().encode(text)])`,
    `[[0xe2, 0x82], [0xff, 0x41], [0xf0, 0x9f, 0x91, 0x8b], [0xed, 0xa0, 0x80], [0xef, 0xbb, 0xbf, 0x61], [0xc0, 0xaf], [0xf4, 0x90, 0x80, 0x80], [0xe0, 0x80, 0x80]].map((bytes) => new TextDecoder().decode(new Uint8Array(bytes)))`,
    `[new TextDecoder('utf-16le').decode(new Uint8Array([0x61, 0, 0x3d, 0xd8, 0x4b, 0xdc])), new TextEncoder().encodeInto('aä👋', new Uint8Array(4))]`,
    `[['https://user:pä@EXAMPLE.com:443/a/../b?q=1&q=2#h'], ['../x?y', 'http://a.de/b/c'], ['mailto:a@b.c'], ['http://münchen.de'], ['http://[::1]:80/']].map(([url, base]) => { const u = new URL(url, base); return [u.href, u.origin, u.host, u.hostname, u.port, u.pathname, u.search, u.hash, u.username, u.password, u.protocol, JSON.stringify(u), String(u)]; })`,
    `[URL.canParse('nope'), URL.canParse('/a', 'https://b.de'), URL.parse('::'), (() => { try { new URL('no way'); } catch (e) { return e instanceof TypeError; } })()]`,
    `(() => { const u = new URL('https://a.de/?utm_source=x&b=1'); u.searchParams.delete('utm_source'); u.searchParams.append('c', 'ä &+~*!'); u.hash = 'top'; u.pathname = '/new path'; u.port = '8443'; u.port = 'x'; return [u.href, u.searchParams.size, [...u.searchParams]]; })()`,
    `(() => { const p = new URLSearchParams('?a=1&b=%20x+y&a=2&%E4&=e&a'); const log = [[...p.keys()], [...p.values()], p.get('a'), p.getAll('a'), p.has('b'), p.has('a', '2'), p.get('zz')]; p.set('a', 9); p.sort(); p.forEach((value, name) => log.push(name + value)); return [log, String(p), String(new URLSearchParams({ x: 1, y: 'ü' })), String(new URLSearchParams([['k', 'v']]))]; })()`,
    `(() => { const o = { d: new Date(5), r: /a/gi, m: new Map([[{ a: 1 }, new Set([1])]]), e: new RangeError('x'), u: undefined, b: new Uint8Array([1, 2]), n: [1, , 3] }; o.self = o; const c = structuredClone(o); return [c !== o, c.self === c, c.d.getTime(), String(c.r), [...c.m.keys()][0].a, [...[...c.m.values()][0]], c.e.name, c.e instanceof RangeError, 'u' in c, [...c.b], 1 in c.n]; })()`,
    `[() => 1, Symbol('s'), { f() {} }, new WeakMap()].map((value) => { try { structuredClone(value); return 'cloned'; } catch (e) { return e.name; } })`,
  ])('%s', async (expression) => {
    const here: unknown = new Function(`return ${expression}`)();
    await expectSeen(expression, JSON.parse(JSON.stringify(here)));
  });
});

describe('scripts of other systems', () => {
  const EVENT = {
    type: 'track',
    event: 'Order Placed',
    user_id: 'u1',
    message_id: 'm1',
    properties: { total: 12, email: 'a@example.com' },
    context: { ip: '10.0.0.1' },
  };
  const run = async (source: string, event: object = EVENT) => {
    const [result] = await sandbox.run(program(source), [{ ...input(1), event: JSON.stringify(event) }]);
    if (result?.ok !== true) return messageIn(result);
    return result.outputs.map((text) => JSON.parse(text));
  };

  it.each([
    [
      'RudderStack, an event',
      `export function transformEvent(event, metadata) {
        const meta = metadata(event);
        log('of', meta.workspaceId);
        if (event.userId !== 'u1') return;
        event.properties.total *= 2;
        delete event.context.ip;
        return event;
      }`,
      [{ ...EVENT, properties: { ...EVENT.properties, total: 24 }, context: {} }],
    ],
    [
      'RudderStack, an event that is dropped',
      `export async function transformEvent(event) { if (event.messageId === 'm1') return; return event; }`,
      [],
    ],
    [
      'RudderStack, a batch',
      `export function transformBatch(events, metadata) {
        return events.flatMap((event) => [event, { ...event, userId: event.userId + '-copy' }]);
      }`,
      [EVENT, { ...EVENT, user_id: 'u1-copy' }],
    ],
    ['a default export of our own', 'export default function transform(event) { return event; }', [EVENT]],
    [
      'exports of our own',
      `const KEEP = ['total'];
      export const transform = (event) => ({ ...event, properties: { total: event.properties[KEEP[0]] } });
      export { KEEP, KEEP as kept };
      export default transform;`,
      [{ ...EVENT, properties: { total: 12 } }],
    ],
    [
      'Jitsu',
      `export default async function (event, { log, props }) {
        log.info('got', event.event);
        if (!event.userId) return 'drop';
        return { ...event, anonymousId: await event.userId, properties: {} };
      }`,
      [{ ...EVENT, anonymous_id: 'u1', properties: {} }],
    ],
    [
      'Jitsu, an event that is changed in place',
      'export default (event) => { event.properties = { n: 1 } }',
      [{ ...EVENT, properties: { n: 1 } }],
    ],
    ['Jitsu, an event that is dropped', 'export default async (event) => "drop"', []],
    [
      'Segment',
      `async function onTrack(event, settings) {
        event.properties.who = event.userId;
        return event;
      }
      async function onIdentify(event) { throw new DropEvent('no people'); }`,
      [{ ...EVENT, properties: { ...EVENT.properties, who: 'u1' } }],
    ],
    ['Segment, an event that is dropped', `function onTrack(event) { throw new DropEvent('test'); }`, []],
    ['Segment, an event without a handler', 'async function onPage(event) { return null; }', [EVENT]],
  ])('run: %s', async (_, source, expected) => {
    expect(await sandbox.check(program(source))).toBeUndefined();
    expect(await run(source)).toEqual(expected);
  });

  // RudderStack has the traits of an identify in the context: a script that masks them there masked nothing.
  it.each([
    ['changes them in place', 'event.context.traits.email = "x"; return event;', { email: 'x', plan: 'pro' }],
    ['removes them in place', 'delete event.context.traits.email; return event;', { plan: 'pro' }],
    [
      'replaces them',
      'const { email, ...traits } = event.context.traits; return { ...event, context: { ...event.context, traits } };',
      { plan: 'pro' },
    ],
    [
      'copies the whole event first',
      'const copy = JSON.parse(JSON.stringify(event)); copy.context.traits.email = "x"; copy.context.traits.n = 1; return copy;',
      { email: 'x', plan: 'pro', n: 1 },
    ],
    [
      'uses the other place',
      'return { ...event, traits: { ...event.traits, plan: "free" } };',
      { email: 'a@example.com', plan: 'free' },
    ],
    [
      'removes one of the places',
      'delete event.context.traits; return event;',
      { email: 'a@example.com', plan: 'pro' },
    ],
  ])('have the traits of an identify in one place where the script %s', async (_, body, traits) => {
    const identify = {
      type: 'identify',
      user_id: 'u1',
      traits: { email: 'a@example.com', plan: 'pro' },
      context: { ip: '10.0.0.1' },
    };
    for (const [source, returned] of [
      [`export function transformEvent(event) { ${body} }`, [{ ...identify, traits }]],
      [
        `export async function transformBatch([event]) { const one = () => { ${body} }; return [one()]; }`,
        [{ ...identify, traits }],
      ],
    ] as const)
      expect(await run(source, identify)).toEqual(returned);
  });

  it('fail as others do, with the line', async () => {
    expect(await run(`export function transformEvent(event) {\n  return event.properties.a.b;\n}`)).toMatch(
      /Cannot read properties of undefined \(reading 'b'\) \(line 2\)/,
    );
    expect(await run(`async function onTrack(event) {\n  await fetch('https://a.example');\n}`)).toMatch(
      /fetch is not defined \(line 2\)/,
    );
    expect(await run(`async function onTrack(event) { throw new ValidationError('bad'); }`)).toMatch(
      /ValidationError: bad/,
    );
    expect(await run('function* transform(event) { yield event; }')).toMatch(/return an array of events/);
    expect(await run('const transform = function* (event) { yield event; };')).toMatch(/iterator/);
  });

  it('that cannot be run say which line to change', async () => {
    for (const [source, message, line] of [
      [
        '// PostHog\nexport function processEvent(event, { config }) { return event }',
        /PostHog: write "function transform/,
        2,
      ],
      [
        'let returnEvent := event\nreturnEvent.properties.x := 1\nreturn returnEvent',
        /Hog, the language of PostHog/,
        1,
      ],
      ['import { f } from "lib";\nexport function transformEvent(e) { return e }', /import statement/, 1],
    ] as const)
      expect(await sandbox.check(program(source))).toMatchObject({
        message: expect.stringMatching(message),
        line,
      });
    expect(await run('function transform(events) {\n  return events.map((event) => event);\n}')).toMatch(
      /name it transformBatch/,
    );
  });
});
