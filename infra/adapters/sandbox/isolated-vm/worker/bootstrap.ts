import type { Adopted, Answers, Failure, Inside, OutputLimits } from '../protocol.ts';
import type { peerForms } from './peer-forms.ts';

/** The kind and payload of an entry, both JSON, and the outputs. */
type Answer = { readonly kind: string; readonly payload: string; readonly outputs: string };

/**
 * Runs inside every isolate before the user's source. Its source text is taken with `toString`, so it must not use anything
 * from outside. User code may replace `JSON`, `Promise` and every prototype, and must neither change an answer of another
 * event nor reach into this function. Therefore: everything needed later is captured at the start; strict mode (no
 * `caller`, no `getFunction` in a stack trace); no iterators, spread, array destructuring or regular expressions; and
 * native `await`, which never calls a patched `then` of a native promise.
 *
 * Each event runs by itself: the source is evaluated again, with the event's clock and seed, and frozen globals. Only
 * microtasks of an earlier event may still run, and they can affect a later event that awaits a promise in one way: by
 * drawing from its random numbers. So where numbers are drawn, such an event begins a run of its own, because the
 * microtasks are drained at the end of each run.
 */
export function bootstrap(
  limits: OutputLimits,
  fileName: string,
  world: FixedWorld,
  makeGlobals: () => OwnGlobals,
  adapt: ReturnType<typeof peerForms>,
): Inside {
  const { parse, stringify } = JSON;
  const { isArray } = Array;
  const { defineProperty, freeze, keys } = Object;
  const { now } = world;
  const { max } = Math;
  const text = String;
  const { call } = Function.prototype;
  const substring = call.bind(String.prototype.substring) as (s: string, from: number, to: number) => string;
  const charCodeAt = call.bind(String.prototype.charCodeAt) as (s: string, at: number) => number;
  const indexOf = call.bind(String.prototype.indexOf) as (s: string, what: string, from: number) => number;

  const functionText = call.bind(Function.prototype.toString) as (found: object) => string;

  const BRACE = 123;
  const LIST_ADVICE = '; transform gets one event: where it takes a list, name it transformBatch';

  /** Numbers for each event in the sizes: its characters, those of its context, its clock, its seed. */
  const PER_EVENT = 4;

  interface Source {
    readonly evaluate: (surroundings?: object, link?: OwnGlobals['link']) => unknown;
    readonly usesGlobal: boolean;
    /** Its parameter is called `events`: it was written for another system. */
    readonly takesList?: boolean;
  }
  /** By the number of the program. */
  const sources: (Source | undefined)[] = [];
  /** The last context, parsed and frozen: many events of a batch share it. */
  let context: { readonly text: string; readonly value: unknown } = { text: '', value: undefined };
  /** An answer is added with one assignment, so that a run that is cut short leaves complete answers only. */
  let answered = { entries: '', body: '', count: 0 };
  /** Number of the run. A continuation of an earlier run sees another number and stops. */
  let generation = 0;
  let waiting = false;
  let began = 0;
  let keepLogs = false;
  let logs = { lines: '', count: 0 };

  /** Bytes of a text in UTF-8; stops counting beyond `most`. */
  function bytesOf(json: string, most: number): number {
    let bytes = json.length;
    for (let i = 0; i < json.length && bytes <= most; i++) {
      const code = charCodeAt(json, i);
      // A pair of surrogates is 4 bytes in 2 units.
      if (code > 0x7f) bytes += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1;
    }
    return bytes;
  }

  /** The limit of an output in bytes, if it exceeds it; it may be somewhat larger than its event. */
  function exceededLimit(json: string, given: string): number | undefined {
    const usual = limits.maxEventBytes;
    if (json.length * 3 <= usual || bytesOf(json, usual) <= usual) return undefined;
    const ofGiven = bytesOf(given, given.length * 3) + limits.outputRoomBytes;
    const most = max(ofGiven, usual);
    return bytesOf(json, most) > most ? most : undefined;
  }

  function isDigit(code: number): boolean {
    return code >= 48 && code <= 57;
  }

  /** The number at `from` in a text; 0 if there is none. */
  function numberAt(digits: string, from: number): number {
    let value = 0;
    for (let at = from; at < from + 7 && isDigit(charCodeAt(digits, at)); at++)
      value = value * 10 + charCodeAt(digits, at) - 48;
    return value;
  }

  /** The location in the user's source where a stack begins. */
  function locationIn(stack: unknown): { line: number; column: number } {
    const at = typeof stack === 'string' ? indexOf(stack, `${fileName}:`, 0) : -1;
    if (typeof stack !== 'string' || at < 0) return { line: 0, column: 0 };
    const from = at + fileName.length + 1;
    const line = numberAt(stack, from);
    return { line, column: numberAt(stack, indexOf(stack, ':', from) + 1) };
  }

  /** The failure for a value that user code threw. Its getters may throw as well. */
  function failureOf(thrown: unknown): Failure {
    let message = 'something was thrown that cannot be read';
    try {
      if ((typeof thrown !== 'object' || thrown === null) && typeof thrown !== 'function') {
        return [substring(text(thrown), 0, limits.maxMessageChars), 0, 0];
      }
      const error = thrown as {
        readonly name?: unknown;
        readonly message?: unknown;
        readonly stack?: unknown;
      };
      const errorMessage = error.message;
      message = 'something was thrown that is not an error';
      if (typeof errorMessage === 'string') {
        const name = error.name;
        const cut = substring(errorMessage, 0, limits.maxMessageChars);
        message = typeof name === 'string' && name !== '' ? `${substring(name, 0, 100)}: ${cut}` : cut;
        message = substring(message, 0, limits.maxMessageChars);
      }
      const { line, column } = locationIn(error.stack);
      return [line === 0 ? message : `${message} (line ${line})`, line, column];
    } catch {
      return [message, 0, 0];
    }
  }

  function describe(thrown: unknown): string {
    return failureOf(thrown)[0];
  }

  function shown(value: unknown): string {
    if (typeof value === 'string') return value;
    try {
      const json = stringify(value) as string | undefined;
      if (json !== undefined && json !== '{}') return json;
      const errorMessage = (value as { readonly message?: unknown } | undefined)?.message;
      return typeof errorMessage === 'string' ? describe(value) : (json ?? text(value));
    } catch {
      return '[unreadable]';
    }
  }

  function log(level: string, values: readonly unknown[]): void {
    if (!keepLogs || logs.count >= limits.maxLogLines) return;
    let line = '';
    for (let i = 0; i < values.length && line.length < limits.maxLogChars; i++) {
      line += (i === 0 ? '' : ' ') + substring(shown(values[i]), 0, limits.maxLogChars);
    }
    // User code ran in `shown` and may have logged, so the count is read again.
    if (logs.count >= limits.maxLogLines) return;
    const json = `["${level}",${stringify(substring(line, 0, limits.maxLogChars))}]`;
    logs = { lines: logs.count === 0 ? json : `${logs.lines},${json}`, count: logs.count + 1 };
  }

  function addAnswer({ kind, payload, outputs }: Answer): void {
    const ended = now();
    const kept = keepLogs ? `,[${logs.lines}]` : '';
    const entry = `[${kind},${ended - began},${payload}${kept}]`;
    const { entries, body, count } = answered;
    answered = {
      entries: count === 0 ? entry : `${entries},${entry}`,
      body: body + outputs,
      count: count + 1,
    };
    began = ended;
    logs = { lines: '', count: 0 };
  }

  function failed(kind: 'threw' | 'output', [message, line, column]: Failure): Answer {
    return { kind: `"${kind}"`, payload: `[${stringify(message)},${line},${column}]`, outputs: '' };
  }

  function invalid(message: string): Answer {
    return failed('output', [message, 0, 0]);
  }

  function noOutput(): Answer {
    return { kind: '0', payload: '[]', outputs: '' };
  }

  /** The JSON of one output, or the failure. */
  function outputOf(value: unknown, given: string): string | Answer {
    if (typeof value !== 'object' || value === null || isArray(value)) {
      return invalid(`transform returned ${nameOf(value)} where an event was expected`);
    }
    let json: string | undefined;
    try {
      json = stringify(value) as string | undefined;
    } catch (thrown) {
      return invalid(`the output cannot be written as JSON: ${firstLine(describe(thrown))}`);
    }
    if (json === undefined) return invalid('the output cannot be written as JSON');
    const most = exceededLimit(json, given);
    if (most !== undefined) return invalid(`the output exceeds ${most} bytes`);
    // Only the JSON counts: `toJSON`, getters and proxies may have returned something else before.
    if (charCodeAt(json, 0) !== BRACE) return invalid('the output is not an object once written as JSON');
    return json;
  }

  function nameOf(value: unknown): string {
    if (value === null) return 'null';
    if (isArray(value)) return 'an array';
    return typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`;
  }

  function firstLine(message: string): string {
    const end = indexOf(message, '\n', 0);
    return end < 0 ? message : substring(message, 0, end);
  }

  /** The answer for the value that `transform` returned. `given`: the JSON of the event. */
  function answerOf(value: unknown, given: string): Answer {
    if (value === null) return noOutput();
    if (typeof value !== 'object') {
      return invalid(
        `transform returned ${nameOf(value)}: return the event, an array of events, or null to drop it`,
      );
    }
    if (isArray(value)) return answerOfSeveral(value, given);
    if (typeof (value as { readonly next?: unknown }).next === 'function')
      return invalid('transform returned an iterator: return an array of events');
    const json = outputOf(value, given);
    return typeof json === 'string' ? { kind: '0', payload: `[${json.length}]`, outputs: json } : json;
  }

  function answerOfSeveral(values: readonly unknown[], given: string): Answer {
    // Read once: a proxy may return another value the next time.
    const length: unknown = values.length;
    if (typeof length !== 'number' || !(length <= limits.maxOutputs)) {
      return invalid(`transform returned more than ${limits.maxOutputs} outputs`);
    }
    let sizes = '';
    let outputs = '';
    for (let i = 0; i < length; i++) {
      const json = outputOf(values[i], given);
      if (typeof json !== 'string') return json;
      sizes += (i === 0 ? '' : ',') + json.length;
      outputs += json;
    }
    return { kind: '0', payload: `[${sizes}]`, outputs };
  }

  function conclude(value: unknown, given: string): void {
    let answer: Answer;
    try {
      answer = answerOf(value, given);
    } catch (thrown) {
      answer = invalid(`the output cannot be read: ${firstLine(describe(thrown))}`);
    }
    addAnswer(answer);
  }

  /** The context of an event, deeply frozen. */
  function contextOf(json: string): unknown {
    if (json !== context.text) context = { text: json, value: frozen(parse(json)) };
    return context.value;
  }

  function frozen(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value;
    const members = value as Record<string, unknown>;
    const names = keys(members);
    for (let i = 0; i < names.length; i++) frozen(members[names[i] ?? '']);
    return freeze(members);
  }

  async function drive(source: Source | undefined, sizes: readonly number[], texts: string): Promise<void> {
    const mine = generation;
    const start = now();
    began = start;
    world.forgetDraws();
    let at = 0;
    let awaited = false;
    for (let i = 0; i < sizes.length; i += PER_EVENT) {
      const size = answered.body.length + answered.entries.length;
      if (i > 0 && (began - start >= limits.sliceMs || size >= limits.sliceChars)) break;
      if (awaited && world.hasDrawn()) break;
      const middle = at + (sizes[i] ?? 0);
      const end = middle + (sizes[i + 1] ?? 0);
      world.begin(sizes[i + 2] ?? 0, sizes[i + 3] ?? 0);
      const given = substring(texts, at, middle);
      let value: unknown;
      try {
        const event: unknown = parse(given);
        value = transformOf(source)(event, contextOf(substring(texts, middle, end)));
        if (isThenable(value)) {
          // The event gets no answer and is sent again, as the first of a run.
          if (i > 0 && world.hasDrawn()) {
            void forget(value);
            break;
          }
          waiting = true;
          awaited = true;
          value = await value;
          if (mine !== generation) return;
          waiting = false;
          if (i > 0 && world.hasDrawn()) break;
        }
      } catch (thrown) {
        if (mine !== generation) return;
        if (waiting && i > 0 && world.hasDrawn()) {
          waiting = false;
          break;
        }
        waiting = false;
        const failure = failureOf(thrown);
        const advice = source?.takesList === true ? LIST_ADVICE : '';
        addAnswer(failed('threw', [failure[0] + advice, failure[1], failure[2]]));
        at = end;
        continue;
      }
      conclude(value, given);
      at = end;
    }
  }

  /** Handles the rejection of a promise that is dropped: an unhandled one fails the whole run. */
  async function forget(value: unknown): Promise<void> {
    try {
      await value;
    } catch {
      // The event fails when it is run again.
    }
  }

  /** Evaluates the source and returns its `transform`. `surroundings`: the global object that it sees. */
  function transformOf(
    source: Source | undefined,
    surroundings?: object,
  ): (event: unknown, context: unknown) => unknown {
    const { evaluate, usesGlobal = false } = source ?? {};
    const found = usesGlobal ? evaluate?.(surroundings ?? globals.make(), globals.link) : evaluate?.();
    if (typeof found === 'function') return found as (event: unknown, context: unknown) => unknown;
    const adapted = adapt((found ?? {}) as Parameters<typeof adapt>[0]);
    if (adapted === undefined) throw new TypeError('the source has no function transform(event, context)');
    return adapted;
  }

  function isThenable(value: unknown): boolean {
    return (
      ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
      typeof (value as { then?: unknown }).then === 'function'
    );
  }

  function answers(settle: boolean): Answers {
    if (settle && waiting) {
      generation += 1;
      waiting = false;
      addAnswer(failed('threw', ['promise never settled', 0, 0]));
    }
    return [`[${answered.entries}]\n${answered.body}`];
  }

  const methods: Record<string, (...values: unknown[]) => void> = {
    log: (...values) => log('info', values),
    info: (...values) => log('info', values),
    warn: (...values) => log('warn', values),
    error: (...values) => log('error', values),
    debug: (...values) => log('debug', values),
  };
  defineProperty(globalThis, 'console', { value: methods, writable: true, configurable: true });
  world.freeze();

  const globals = makeGlobals();

  return {
    adopt(program, found, usesGlobal) {
      const surroundings = usesGlobal ? globals.make() : {};
      let fault: Failure | null = null;
      world.begin(0, 0);
      try {
        const source = { evaluate: found as Source['evaluate'], usesGlobal };
        const written = substring(functionText(transformOf(source, surroundings)), 0, 100);
        const takesList = indexOf(written, 'events', 0) === indexOf(written, '(', 0) + 1;
        sources[program] = { ...source, takesList };
      } catch (thrown) {
        fault = failureOf(thrown);
      }
      const adopted: Adopted = { fault, globals: keys(surroundings) };
      return stringify(adopted);
    },
    run(program, batch, keep) {
      generation += 1;
      waiting = false;
      keepLogs = keep;
      logs = { lines: '', count: 0 };
      answered = { entries: '', body: '', count: 0 };
      void drive(sources[program], parse(batch[0]) as number[], batch[1]);
      return waiting ? undefined : answers(false);
    },
    answers,
  };
}

/** The globals that user code sees: everything that could differ between two runs of one event is fixed and frozen. */
interface FixedWorld {
  /** The real clock, ms, for measuring. */
  now(): number;
  /** Sets the clock to `at` (epoch ms), and seeds `Math.random`. */
  begin(at: number, seed: number): void;
  /** Whether random numbers were drawn since `forgetDraws`. */
  hasDrawn(): boolean;
  forgetDraws(): void;
  /** Freezes everything that user code can reach. */
  freeze(): void;
}

/**
 * Runs inside every isolate, before all other code. Its source text is taken with `toString`, so it must not use anything
 * from outside.
 *
 * The clock stands still, random numbers follow a seed, and everything that depends on the garbage collector or on an
 * earlier event (`WeakRef`, the last match of a regular expression) is removed. Then every built-in is frozen. As the source
 * is evaluated again for each event, no event can leave anything behind for the next. Our own code below user code, in
 * `ownFile`, is removed from stacks.
 */
export function fixedWorld(ownFile: string): FixedWorld {
  const { defineProperty, freeze, getOwnPropertyDescriptor, getPrototypeOf } = Object;
  const { apply, construct, ownKeys } = Reflect;
  const { imul } = Math;
  const { isArray } = Array;
  const globals = globalThis as unknown as Record<string, object>;
  const MachineDate = Date;
  const machineNow = Date.now;

  /** Frozen objects, and values behind accessors, which the loop that freezes does not see. */
  const seen = new Set<unknown>();
  const allowed: unknown[] = [];

  /** Characters that one event may segment, and those that it has segmented. */
  const maxSegmented = 1_000_000;
  let segmented = 0;

  let at = 0;
  let seed = 0;
  let isSeeded = false;
  let isDrawn = false;
  let a = 0;
  let b = 0;
  let c = 0;
  let counter = 0;

  /** sfc32: 128 bits of state, no multiplication. */
  function next(): number {
    const result = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + result;
    return result >>> 0;
  }

  function random(): number {
    isDrawn = true;
    if (!isSeeded) {
      isSeeded = true;
      a = seed | 0;
      b = (seed / 4294967296) | 0;
      c = imul(a ^ b, 0x9e3779b1);
      counter = 1;
      for (let i = 0; i < 12; i++) next();
    }
    return ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992;
  }

  function put(owner: object, name: PropertyKey, value: unknown): void {
    defineProperty(owner, name, { value, writable: true, enumerable: false, configurable: true });
  }

  function fixDate(): void {
    function FixedDate(this: unknown, ...parts: unknown[]): unknown {
      if (new.target === undefined) return new MachineDate(at).toString();
      return construct(MachineDate, parts.length === 0 ? [at] : parts, new.target);
    }
    put(FixedDate, 'name', 'Date');
    put(FixedDate, 'length', 7);
    put(FixedDate, 'now', function now() {
      return at;
    });
    put(FixedDate, 'parse', MachineDate.parse);
    put(FixedDate, 'UTC', MachineDate.UTC);
    defineProperty(FixedDate, 'prototype', { value: MachineDate.prototype, writable: false });
    put(MachineDate.prototype, 'constructor', FixedDate);
    put(globalThis, 'Date', FixedDate);
  }

  /** Without an argument, date formatting would use the real clock. */
  function fixFormats(): void {
    const formats = Intl.DateTimeFormat.prototype;
    const getter = getOwnPropertyDescriptor(formats, 'format')?.get;
    const { formatToParts } = formats;
    if (getter === undefined) throw new Error('no Intl.DateTimeFormat.prototype.format');
    defineProperty(formats, 'format', {
      get(this: Intl.DateTimeFormat) {
        const format = apply(getter, this, []) as Intl.DateTimeFormat['format'];
        return (date?: Date | number) => format(date === undefined ? at : date);
      },
      enumerable: false,
      configurable: true,
    });
    put(
      formats,
      'formatToParts',
      {
        formatToParts(this: Intl.DateTimeFormat, date?: Date | number) {
          return apply(formatToParts, this, [date === undefined ? at : date]);
        },
      }.formatToParts,
    );
  }

  /**
   * The stack below user code would reveal whether an event is the first of its batch, and whether an earlier one awaited
   * something. User code never gets the frames, which lead to functions of this file.
   */
  function fixStacks(): void {
    const { toString: errorText } = Error.prototype;
    put(Error, 'prepareStackTrace', function prepareStackTrace(error: unknown, frames: unknown): string {
      let stack: string;
      try {
        stack = apply(errorText, error, []) as string;
      } catch {
        stack = 'Error';
      }
      if (!isArray(frames)) return stack;
      let isUserSeen = false;
      for (let i = 0; i < frames.length; i++) {
        const frame = frames[i] as { getFileName(): unknown; toString(): string };
        if (frame.getFileName() === ownFile) {
          // Above user code: one of these built-ins, called by it.
          if (!isUserSeen) continue;
          break;
        }
        isUserSeen = true;
        stack += `\n    at ${frame.toString()}`;
      }
      return stack;
    });
  }

  /** Shared memory would let code wait without using processor time; WebAssembly's memory escapes the isolate's limit. */
  function remove(): void {
    for (const name of [
      'SharedArrayBuffer',
      'Atomics',
      'WebAssembly',
      'WeakRef',
      'FinalizationRegistry',
      'Temporal',
    ])
      delete globals[name];
    // `RegExp.$1`, `RegExp.lastMatch` and so on.
    const kept: readonly PropertyKey[] = ['prototype', 'length', 'name', 'escape', Symbol.species];
    for (const key of ownKeys(RegExp)) if (!kept.includes(key)) Reflect.deleteProperty(RegExp, key);
  }

  /**
   * A frozen property of a prototype cannot be assigned in inheriting objects: `this.name = 'MyError'` would throw. It can be
   * as an accessor, whose setter defines a property of the inheriting object. Only done for prototypes that code inherits
   * from with assignments, because each property makes the start of an isolate slower.
   */
  function allowOverrides(): void {
    const typedArray = getPrototypeOf(Uint8Array) as { readonly prototype: object };
    const generator = getPrototypeOf(function* () {}) as { readonly prototype: object };
    // V8 itself looks these up in loops over arrays, `await` and array methods; accessors would make that slow.
    allowAll(Array.prototype, [Symbol.iterator, 'constructor']);
    allowAll(Promise.prototype, ['then', 'constructor']);
    for (const name of ['Object', 'Function', 'WeakMap', 'WeakSet', 'Iterator'])
      allowAll((globals[name] as { prototype: object }).prototype);
    for (const name of ['Map', 'Set'])
      allowAll((globals[name] as { prototype: object }).prototype, [Symbol.iterator]);
    allowAll(typedArray.prototype, [Symbol.iterator, 'constructor']);
    allowAll(generator.prototype, ['next']);
    for (const name of ['Date', 'RegExp', 'String', 'Number', 'Boolean'])
      for (const key of ['constructor', 'toString', 'valueOf', 'toJSON', 'toISOString', 'getTime'])
        allow((globals[name] as { prototype: object }).prototype, key);
    for (const base of [Array, Date, Map, typedArray]) allowAll(base);
    allow(Error, 'captureStackTrace');
    for (const name of ownKeys(globals)) {
      const error = typeof name === 'string' ? globals[name] : undefined;
      if (typeof error !== 'function' || !('prototype' in error)) continue;
      const prototype = error.prototype as object;
      if (error === Error || getPrototypeOf(prototype) === Error.prototype) allowAll(prototype);
    }
  }

  function allowAll(owner: object, except: readonly PropertyKey[] = []): void {
    for (const name of ownKeys(owner)) if (!except.includes(name)) allow(owner, name);
  }

  function allow(owner: object, name: PropertyKey): void {
    const known = getOwnPropertyDescriptor(owner, name);
    if (known?.writable !== true || known.configurable !== true) return;
    const { value } = known;
    const { get, set } = {
      get() {
        return value;
      },
      set(this: object, given: unknown) {
        if (this === owner) throw new TypeError(`Cannot assign to '${String(name)}' of a built-in`);
        defineProperty(this, name, { value: given, writable: true, enumerable: true, configurable: true });
      },
    };
    // Libraries that look up built-ins by their descriptors need to find the built-in behind the accessor.
    put(get, 'originalValue', value);
    // The accessors have no further properties, so the loop that freezes may skip them.
    seen.add(freeze(get)).add(freeze(set));
    defineProperty(owner, name, { get, set, enumerable: false, configurable: false });
    allowed.push(value);
  }

  function freezeAll(): void {
    allowOverrides();
    const waiting: unknown[] = [globalThis, ...allowed, ...unnamed()];
    while (waiting.length > 0) {
      const thing = waiting.pop();
      if ((typeof thing !== 'object' && typeof thing !== 'function') || thing === null) continue;
      if (seen.has(thing)) continue;
      seen.add(thing);
      freeze(thing);
      waiting.push(getPrototypeOf(thing));
      // This loop dominates the start of an isolate, so it creates no unnecessary objects.
      const own = ownKeys(thing);
      for (let i = 0; i < own.length; i++) {
        const found = getOwnPropertyDescriptor(thing, own[i] ?? '');
        if (found === undefined) continue;
        const { value } = found;
        if (value === undefined) waiting.push(found.get, found.set);
        else if (typeof value === 'object' || typeof value === 'function') waiting.push(value);
      }
    }
  }

  /** Built-ins that are not reachable by name. */
  function unnamed(): readonly object[] {
    return [
      function* () {},
      async function* () {},
      async () => {},
      [][Symbol.iterator](),
      new Map().entries(),
      new Set().values(),
      ''[Symbol.iterator](),
      ''.matchAll(/x/g),
      ...iteratorHelpers(),
      new Intl.Segmenter().segment(''),
      new Intl.Segmenter().segment('')[Symbol.iterator](),
      // The `stack` of an error is an own accessor, shared by all errors.
      new Error(),
    ];
  }

  /** Not yet in TypeScript's library. */
  function iteratorHelpers(): readonly object[] {
    const { from } = globals.Iterator as unknown as { from(given: object): { drop(count: number): object } };
    const wrapped = from({ next: () => ({ done: true, value: undefined }) });
    return [wrapped, wrapped.drop(0)];
  }

  /** Growable buffers are not allocated by the isolate's allocator, so their memory would escape the isolate's limit. */
  function fixBuffers(): void {
    const MachineBuffer = ArrayBuffer;
    function FixedBuffer(length: number, options?: unknown): unknown {
      if (new.target === undefined) throw new TypeError("Constructor ArrayBuffer requires 'new'");
      if ((options as { maxByteLength?: unknown } | undefined)?.maxByteLength !== undefined)
        throw new TypeError('an ArrayBuffer with maxByteLength is not available: make one of a fixed length');
      return construct(MachineBuffer, [length], new.target);
    }
    for (const name of ownKeys(MachineBuffer)) {
      const found = getOwnPropertyDescriptor(MachineBuffer, name);
      if (found !== undefined) defineProperty(FixedBuffer, name, found);
    }
    put(MachineBuffer.prototype, 'constructor', FixedBuffer);
    Reflect.deleteProperty(MachineBuffer.prototype, 'resize');
    put(globalThis, 'ArrayBuffer', FixedBuffer);
  }

  /** Segments keep a copy of their text outside the heap. */
  function fixSegments(): void {
    const segmenter = Intl.Segmenter.prototype;
    const { segment } = segmenter;
    put(
      segmenter,
      'segment',
      {
        segment(this: Intl.Segmenter, given: unknown) {
          const text = `${given as string}`;
          segmented += text.length;
          if (segmented > maxSegmented)
            throw new RangeError(`an event may segment ${maxSegmented} characters at most`);
          return apply(segment, this, [text]) as Intl.Segments;
        },
      }.segment,
    );
  }

  fixDate();
  fixFormats();
  fixBuffers();
  fixSegments();
  fixStacks();
  put(Math, 'random', { random }.random);
  remove();

  return {
    now: machineNow,
    begin(time, start) {
      at = time;
      seed = start;
      isSeeded = false;
      segmented = 0;
    },
    hasDrawn: () => isDrawn,
    forgetDraws() {
      isDrawn = false;
    },
    freeze: freezeAll,
  };
}

/** Creates global objects for single events. */
interface OwnGlobals {
  /** A global object for one event: inherits from the real one, and keeps the properties that the code adds. */
  make(): object;
  /** Makes a property of the global object readable and writable as a variable, as in a browser. */
  link(globalObject: object, name: string, get: () => unknown, set: (value: unknown) => void): void;
}

/**
 * Runs inside every isolate once its globals are frozen. Its source text is taken with `toString`, so it must not use
 * anything from outside.
 */
export function ownGlobals(): OwnGlobals {
  const { create, defineProperty, freeze, getOwnPropertyNames } = Object;
  /** Created when a source first needs it, so that the start of an isolate stays quick. */
  let inherited: object | undefined;

  function copyOfGlobal(): object {
    const made: Record<string, unknown> = {};
    for (const name of getOwnPropertyNames(globalThis)) {
      const value = (globalThis as Record<string, unknown>)[name];
      defineProperty(made, name, { value, writable: false, enumerable: false, configurable: true });
    }
    for (const name of ['self', 'globalThis']) {
      const get = freeze(function (this: unknown) {
        return this;
      });
      defineProperty(made, name, { get, enumerable: false, configurable: true });
    }
    return freeze(made);
  }

  return {
    make() {
      inherited ??= copyOfGlobal();
      return create(inherited) as object;
    },
    link: freeze(
      (globalObject: object, name: string, get: () => unknown, set: (value: unknown) => void): void => {
        defineProperty(globalObject, name, { get, set, enumerable: true, configurable: true });
      },
    ),
  };
}
