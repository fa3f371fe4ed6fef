/** Code that attacks its host, run as the body of `transform(event)` for one event among honest ones. */
export interface HostileSnippet {
  readonly name: string;
  /** Statements; the surrounding code then returns the event. */
  readonly does: string;
  /**
   * The possible outcomes of the hostile event: several where it depends on the limit that is reached first.
   */
  readonly ends: readonly ('ok' | 'threw' | 'timeout' | 'memory' | 'output')[];
}

const ENDLESS: readonly HostileSnippet[] = [
  { name: 'an endless loop', does: 'for (;;);', ends: ['timeout'] },
  {
    name: 'an endless loop that catches everything',
    does: 'for (;;) { try { for (;;); } catch {} finally { for (;;); } }',
    ends: ['timeout'],
  },
  {
    name: 'a getter that never ends',
    does: 'return { ...event, get a() { for (;;); } };',
    ends: ['timeout'],
  },
  {
    name: 'a getter of an output that never ends',
    does: 'return Object.defineProperty({ ...event }, "a", { enumerable: true, get() { for (;;); } });',
    ends: ['timeout'],
  },
  { name: 'a toJSON that never ends', does: 'return { toJSON() { for (;;); } };', ends: ['timeout'] },
  {
    name: 'a proxy whose traps never end',
    does: 'return new Proxy(event, { ownKeys() { for (;;); } });',
    ends: ['timeout'],
  },
  {
    name: 'a proxy array that grows while it is read',
    does: 'let n = 0; return new Proxy([], { get: (_, key) => (key === "length" ? n++ : event) });',
    ends: ['ok', 'output'],
  },
  { name: 'a thenable that never ends', does: 'return { get then() { for (;;); } };', ends: ['timeout'] },
  {
    name: 'a flood of microtasks',
    does: 'const again = () => Promise.resolve().then(again); again();',
    ends: ['timeout'],
  },
  {
    name: 'a flood of microtasks under an endless loop',
    does: '(async () => { for (;;) await 0; })(); for (;;);',
    ends: ['timeout'],
  },
  {
    name: 'an await that goes on for ever',
    does: 'return (async () => { for (;;) await 0; })();',
    ends: ['timeout'],
  },
  {
    name: 'an async generator that never ends',
    does: 'const all = async function* () { for (;;) yield 1; }; return (async () => { for await (const _ of all()); })();',
    ends: ['timeout'],
  },
  {
    name: 'a flood of logs',
    does: 'for (let i = 0; i < 1e5; i++) console.log("x".repeat(1e4), i);',
    ends: ['ok', 'timeout'],
  },
  {
    name: 'a regular expression that backtracks',
    does: '/^(a+)+$/.test("a".repeat(60) + "b");',
    ends: ['timeout'],
  },
  { name: 'a sort that never ends', does: '[1, 2, 3].sort(() => { for (;;); });', ends: ['timeout'] },
  {
    name: 'an error whose message never ends',
    does: 'throw { get message() { for (;;); } };',
    ends: ['timeout'],
  },
  { name: 'deep recursion', does: '(function down() { down(); })();', ends: ['threw'] },
  {
    name: 'recursion that logs at the bottom',
    does: 'const down = () => { try { down(); } catch { console.log("x"); } }; down();',
    ends: ['ok', 'threw', 'timeout'],
  },
  {
    name: 'a join that walks four billion holes',
    does: 'const a = []; a[4e9] = 1; a.join("");',
    ends: ['timeout', 'memory', 'threw'],
  },
];

const MEMORY: readonly HostileSnippet[] = [
  {
    name: 'memory in small pieces',
    does: 'const all = []; for (;;) all.push({ n: all.length, text: "x" + all.length });',
    ends: ['timeout', 'memory'],
  },
  {
    name: 'memory in big pieces',
    does: 'const all = []; for (;;) all.push(new Array(1e6).fill(1));',
    ends: ['timeout', 'memory'],
  },
  {
    name: 'memory outside the heap',
    does: 'const all = []; for (;;) all.push(new Uint8Array(1e7).fill(1));',
    ends: ['threw', 'memory', 'timeout'],
  },
  {
    name: 'native objects outside the heap',
    does: 'const all = []; for (;;) all.push(new Intl.DateTimeFormat("de"), new Intl.Collator("sv"));',
    ends: ['timeout', 'memory'],
  },
  {
    name: 'a text that doubles',
    does: 'let text = "x"; for (;;) text += text + text.length;',
    ends: ['threw', 'memory', 'timeout'],
  },
  {
    name: 'a map that grows',
    does: 'const map = new Map(); for (let i = 0; ; i++) map.set(i, i);',
    ends: ['timeout', 'memory', 'threw'],
  },
  {
    name: 'a huge parse, which crashed a host',
    does: `JSON.parse('[' + '1,'.repeat(1e8) + '1]');`,
    ends: ['memory', 'timeout'],
  },
  {
    name: 'a huge fill, which ignored a timeout',
    does: 'new Array(1e9).fill(0);',
    ends: ['memory', 'timeout'],
  },
  {
    name: 'a parse nested ten million deep',
    does: `JSON.parse('['.repeat(1e7));`,
    ends: ['memory', 'timeout', 'threw'],
  },
  {
    name: 'a sort of thirty million',
    does: 'new Array(3e7).fill(0).map((_, i) => -i).sort();',
    ends: ['memory', 'timeout'],
  },
  {
    name: 'a buffer that may grow to a terabyte',
    does: 'const buffer = new ArrayBuffer(8, { maxByteLength: 2 ** 40 }); buffer.resize(2 ** 33); new Uint8Array(buffer).fill(1);',
    ends: ['threw', 'memory', 'timeout'],
  },
  {
    name: 'growable buffers outside the heap, each below its limit',
    does: 'const all = []; for (let i = 0; i < 40; i++) { const one = new ArrayBuffer(8, { maxByteLength: 3e7 }); one.resize(3e7); all.push(new Uint8Array(one).fill(1)); }',
    ends: ['threw'],
  },
  {
    name: 'a growable buffer by the constructor of another buffer',
    does: 'const Buffers = new Uint8Array(8).buffer.constructor; class Mine extends Buffers {} new Mine(3e8, { maxByteLength: 3e8 });',
    ends: ['threw'],
  },
  {
    name: 'segments, which copy their text outside the heap',
    does: 'const all = []; const text = "ab ".repeat(3e5); for (;;) all.push(new Intl.Segmenter("sv", { granularity: "word" }).segment(text));',
    ends: ['threw'],
  },
  { name: 'a big integer', does: 'for (let n = 2n; ; ) n *= n;', ends: ['memory', 'timeout', 'threw'] },
  {
    name: 'an error with a huge message',
    does: 'throw new Error("x".repeat(2 ** 28));',
    ends: ['threw', 'memory', 'timeout'],
  },
  {
    name: 'a flood of rejected promises',
    does: 'for (;;) Promise.reject(new Error("x"));',
    ends: ['timeout', 'memory'],
  },
];

const OUTPUTS: readonly HostileSnippet[] = [
  {
    name: 'an output of 100 MB',
    does: 'return { ...event, text: "x".repeat(1e8) };',
    ends: ['output', 'memory', 'timeout'],
  },
  { name: 'a million outputs', does: 'return Array(1e6).fill(event);', ends: ['output'] },
  {
    name: 'an output that unfolds to gigabytes',
    does: 'let value = "lol"; for (let i = 0; i < 12; i++) value = Array(10).fill(value); return { ...event, value };',
    ends: ['memory', 'timeout', 'output'],
  },
  {
    name: 'an output nested a million deep',
    does: 'let value = {}; for (let i = 0; i < 1e6; i++) value = { value }; return { ...event, value };',
    ends: ['output', 'memory', 'timeout'],
  },
  { name: 'a cycle', does: 'event.self = event;', ends: ['output'] },
  { name: 'a symbol', does: 'return Symbol.iterator;', ends: ['output'] },
  { name: 'a big integer inside', does: 'event.n = 1n;', ends: ['output'] },
  {
    name: 'a revoked proxy',
    does: 'const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy;',
    ends: ['threw', 'output'],
  },
  {
    name: 'an output that throws while it is written',
    does: 'return { ...event, toJSON() { throw { toString() { throw 1; } }; } };',
    ends: ['output'],
  },
  {
    name: 'an output that tells two stories',
    does: 'let first = true; return { toJSON() { if (first) { first = false; return 7; } return event; } };',
    ends: ['output'],
  },
  {
    name: 'raw JSON with half a character',
    does: 'event.raw = JSON.rawJSON?.(\'"\\ud800"\');',
    ends: ['ok'],
  },
];

const ERRORS: readonly HostileSnippet[] = [
  {
    name: 'an error whose getters throw',
    does: 'throw { get message() { throw this; }, get stack() { throw this; }, get name() { throw this; } };',
    ends: ['threw'],
  },
  {
    name: 'an error that lies about its parts',
    does: 'throw Object.assign(new Error(), { message: {}, stack: { toString: 1 }, name: Symbol("x") });',
    ends: ['threw'],
  },
  { name: 'a thrown symbol', does: 'throw Symbol("x");', ends: ['threw'] },
  { name: 'a thrown nothing', does: 'throw undefined;', ends: ['threw'] },
  {
    name: 'a thrown function that cannot be shown',
    does: 'throw Object.assign(() => 1, { toString() { throw 1; }, message: 7 });',
    ends: ['threw'],
  },
  {
    name: 'a thrown proxy',
    does: 'throw new Proxy(new Error("x"), { get() { throw new Error("y"); }, getPrototypeOf() { throw 1; } });',
    ends: ['threw'],
  },
  {
    name: 'a stack that is made by the thrower',
    does: 'Error.prepareStackTrace = () => { throw new Error("again"); }; throw new Error("x");',
    ends: ['threw'],
  },
  {
    name: 'an error that tries to forge an answer',
    does: 'throw new Error(\'"]],"entries":[[0,1,[1]]]\\n\\n{"type":"track"}\');',
    ends: ['threw'],
  },
];

/** The globals are frozen: each attempt fails, and later programs find them unchanged. */
const POISON: readonly HostileSnippet[] = [
  {
    name: 'a poisoned JSON',
    does: 'JSON.stringify = () => "{}"; JSON.parse = () => ({ type: "stolen" }); globalThis.JSON = undefined;',
    ends: ['threw'],
  },
  {
    name: 'a poisoned Promise',
    does: `Promise.prototype.then = () => { for (;;); }; Promise.resolve = null; globalThis.Promise = class {};
      Object.defineProperty(Promise.prototype, 'constructor', { get() { throw 1; } });`,
    ends: ['threw'],
  },
  {
    name: 'poisoned arrays',
    does: `Array.prototype.push = () => 0; Array.prototype[Symbol.iterator] = () => { throw 1; }; Array.isArray = () => false;
      for (let i = 0; i < 9; i++) Object.defineProperty(Array.prototype, i, { set() { throw 1; }, get() { return 'x'; } });`,
    ends: ['threw'],
  },
  {
    name: 'poisoned texts',
    does: `String.prototype.substring = () => '{}'; String.prototype.charCodeAt = () => 0; String.prototype.indexOf = () => 0;
      String.prototype.toJSON = () => 'x'; String.prototype.valueOf = () => 'x'; globalThis.String = () => 'x';`,
    ends: ['threw'],
  },
  {
    name: 'poisoned functions',
    does: `Function.prototype.call = () => 'x'; Function.prototype.apply = () => 'x'; Function.prototype.bind = () => 'x';
      Reflect.apply = () => 'x'; Object.hasOwn = () => true;`,
    ends: ['threw'],
  },
  {
    name: 'a poisoned clock',
    does: 'Date.now = () => { throw 1; }; globalThis.Date = undefined;',
    ends: ['threw'],
  },
  {
    name: 'a poisoned Object.prototype',
    does: `for (const key of ['kind', 'payload', 'outputs', 'lines', 'count', 'entries', 'body', 'sizes', 'length', '0', 'message'])
      Object.defineProperty(Object.prototype, key, { configurable: true, set() { throw 1; }, get() { return 'x'; } });`,
    ends: ['threw'],
  },
  {
    name: 'a toJSON on everything',
    does: 'Object.prototype.toJSON = () => "forged";',
    ends: ['threw'],
  },
  {
    name: 'a then on everything',
    does: 'Object.prototype.then = () => {};',
    ends: ['threw'],
  },
  {
    name: 'a transform that replaces itself',
    does: 'transform = () => 7; globalThis.transform = () => 7;',
    ends: ['ok'],
  },
  { name: 'a console that is gone', does: 'console.log = null; delete globalThis.console;', ends: ['threw'] },
  {
    name: 'a frozen world',
    does: 'for (const o of [Object, Array, JSON, globalThis.String]) { Object.freeze(o); Object.freeze(o.prototype); }',
    ends: ['ok'],
  },
  {
    name: 'a new prototype for what is built in',
    does: 'Object.setPrototypeOf(Array.prototype, { then() {} });',
    ends: ['threw'],
  },
  {
    name: 'a getter of a built-in that changes it',
    does: 'Object.getOwnPropertyDescriptor(Object.prototype, "toString").set.call(Object.prototype, () => "x");',
    ends: ['threw'],
  },
];

/** Each throws `escaped` if it escapes. */
const ESCAPES: readonly HostileSnippet[] = [
  {
    name: 'the constructor of a constructor',
    does: `const found = event.constructor.constructor('return typeof process + typeof require')();
      if (found !== 'undefinedundefined') throw new Error('escaped');`,
    ends: ['ok'],
  },
  {
    name: 'every constructor within reach',
    does: `for (const thing of [event, console.log, (async () => {}), (function* () {}), Promise, new Error()]) {
        const world = thing.constructor.constructor('return this')();
        if (world.Object !== Object || world.process || world.require || !Object.isFrozen(world)) throw new Error('escaped');
      }`,
    ends: ['ok'],
  },
  {
    name: 'the caller of transform',
    does: `let above; try { above = transform.caller; } catch {}
      try { above ??= arguments.callee.caller; } catch {}
      if (typeof above === 'function') throw new Error('escaped');`,
    ends: ['ok'],
  },
  {
    name: 'the frames of a stack',
    does: `let frames = []; Error.prepareStackTrace = (_, all) => { frames = all; return ''; }; new Error().stack;
      for (const frame of frames.slice(1)) if (frame.getFunction() !== undefined || (frame.getThis() ?? globalThis) !== globalThis) throw new Error('escaped');`,
    ends: ['threw'],
  },
  {
    name: 'the events of others',
    does: `const seen = JSON.stringify([RegExp.$_, RegExp.lastMatch, Object.getOwnPropertyNames(globalThis).filter((name) => typeof globalThis[name] === 'string')]);
      if (seen.includes('u0') || seen.includes('u2')) throw new Error('escaped');`,
    ends: ['ok'],
  },
  {
    name: 'a look for process and require',
    does: 'if (typeof process + typeof require !== "undefinedundefined") throw new Error("escaped");',
    ends: ['ok'],
  },
  {
    name: 'an error of the host, by a stack that overflows inside of it',
    does: `let caught; const down = () => { try { console.log(event); down(); } catch (error) { caught ??= error; throw error; } };
      try { down(); } catch {}
      if (caught.constructor.constructor('return typeof process')() !== 'undefined') throw new Error('escaped');`,
    ends: ['ok', 'timeout'],
  },
  {
    name: 'a promise of its own species',
    does: `class Own extends Promise { static get [Symbol.species]() {
        return function (run) { run((value) => value?.constructor?.constructor('return process')(), () => {}); }; } }
      return new Own((resolve) => resolve(event));`,
    ends: ['ok', 'threw'],
  },
  {
    name: 'a function of another realm',
    does: `const made = Reflect.construct(Function, ['return typeof process + typeof require'], class extends Array {});
      if (made() !== 'undefinedundefined') throw new Error('escaped');`,
    ends: ['ok'],
  },
  {
    name: 'a module',
    does: 'return import("node:child_process").then(() => { throw new Error("escaped"); });',
    ends: ['threw'],
  },
  {
    name: 'a wait on shared memory',
    does: 'Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0, 60_000);',
    ends: ['threw'],
  },
  {
    name: 'a call by the garbage collector',
    does: 'new FinalizationRegistry(() => { for (;;); }).register({}, 1);',
    ends: ['threw'],
  },
  { name: 'a weak reference', does: 'new WeakRef({});', ends: ['threw'] },
  { name: 'shared memory', does: 'new SharedArrayBuffer(8);', ends: ['threw'] },
  { name: 'WebAssembly', does: 'new WebAssembly.Memory({ initial: 60000 });', ends: ['threw'] },
];

export const HOSTILE_SNIPPETS: readonly HostileSnippet[] = [
  ...ENDLESS,
  ...MEMORY,
  ...OUTPUTS,
  ...ERRORS,
  ...POISON,
  ...ESCAPES,
];

/** Rejected promises that are never awaited. The returned event is the answer; the rejection is ignored. */
export const FLOATING_REJECTIONS: readonly HostileSnippet[] = [
  {
    name: 'an async call that throws and that nobody awaits',
    does: '(async () => { event.nothing.there; })();',
    ends: ['ok'],
  },
  { name: 'a rejection with nothing', does: 'Promise.reject();', ends: ['ok'] },
  {
    name: 'a rejection that says what a call says whose time is up',
    does: 'Promise.reject(new Error("Script execution timed out."));',
    ends: ['ok'],
  },
  {
    name: 'a rejection whose getters throw',
    does: 'Promise.reject({ get message() { throw this; }, get stack() { throw this; }, get name() { throw this; } });',
    ends: ['ok'],
  },
  {
    name: 'a thousand rejections',
    does: 'const all = []; for (let i = 0; i < 1e3; i++) all.push(Promise.reject(new Error("x" + i)));',
    ends: ['ok'],
  },
  {
    name: 'a rejection that comes late',
    does: '(async () => { for (let i = 0; i < 100; i++) await 0; throw new Error("late"); })();',
    ends: ['ok'],
  },
  {
    name: 'a rejection beside a promise that nothing will settle',
    does: 'Promise.reject(1); return new Promise(() => {});',
    ends: ['threw'],
  },
  {
    name: 'a random number, then a rejection that is returned',
    does: 'Math.random(); return Promise.reject(new Error("x"));',
    ends: ['threw'],
  },
];

/** Rejections that run code when they are inspected. */
export const HOSTILE_REJECTIONS: readonly HostileSnippet[] = [
  {
    name: 'a rejection whose message never ends',
    does: 'Promise.reject({ get message() { for (;;); } });',
    ends: ['timeout'],
  },
  {
    name: 'a rejection that makes another when it is read',
    does: 'const all = []; const again = () => all.push(Promise.reject({ get message() { again(); } })); again();',
    ends: ['ok', 'timeout'],
  },
  {
    name: 'a rejection that floods with microtasks when it is read',
    does: 'Promise.reject({ get message() { const again = () => Promise.resolve().then(again); again(); } });',
    ends: ['timeout'],
  },
  {
    name: 'a rejection before an endless loop',
    does: 'Promise.reject(new Error("x")); for (;;);',
    ends: ['timeout'],
  },
];
