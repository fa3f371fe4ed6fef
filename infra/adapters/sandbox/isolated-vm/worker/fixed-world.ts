/** The globals that user code sees: everything that could differ between two runs of one event is fixed and frozen. */
export interface FixedWorld {
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
export interface OwnGlobals {
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
