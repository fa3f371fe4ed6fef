import { createHash, createHmac } from 'node:crypto';

/**
 * Adds web APIs to the globals of an isolate, before they are frozen: `crypto`, `TextEncoder`, `TextDecoder`, `btoa`,
 * `atob` and `structuredClone`. Its source text is taken with `toString`, so it must not use anything from outside. All of
 * it is deterministic: random values follow the seed of the event.
 */
export function webApis(host: WebHost): void {
  type Bytes = ArrayBuffer | ArrayBufferView;
  const { defineProperty } = Object;
  const { fromCharCode } = String;
  const { isView } = ArrayBuffer;
  const { random } = Math;
  const CHUNK = 8_192;

  function publish(name: string, value: unknown): void {
    defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
  }

  function isBytes(value: unknown): value is Bytes {
    return value instanceof ArrayBuffer || isView(value);
  }

  function bytesOf(given: Bytes): Uint8Array<ArrayBuffer> {
    if (given instanceof ArrayBuffer) return new Uint8Array(given);
    return new Uint8Array(given.buffer as ArrayBuffer, given.byteOffset, given.byteLength);
  }

  /** A text with one character for each byte. */
  function binaryOf(given: Bytes): string {
    const bytes = bytesOf(given);
    let text = '';
    for (let at = 0; at < bytes.length; at += CHUNK) text += fromCharCode(...bytes.subarray(at, at + CHUNK));
    return text;
  }

  function bytesIn(binary: string): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
    return bytes;
  }

  const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

  function base64Of(binary: string): string {
    let text = '';
    for (let i = 0; i < binary.length; i += 3) {
      const [a, b, c] = [binary.charCodeAt(i), binary.charCodeAt(i + 1), binary.charCodeAt(i + 2)];
      text += BASE64.charAt(a >> 2) + BASE64.charAt(((a & 3) << 4) | (b >> 4));
      text += i + 1 < binary.length ? BASE64.charAt(((b & 15) << 2) | (c >> 6)) : '=';
      text += i + 2 < binary.length ? BASE64.charAt(c & 63) : '=';
    }
    return text;
  }

  class WebError extends Error {
    constructor(message: string, name: string) {
      super(message);
      this.name = name;
    }
  }

  function btoa(data: unknown): string {
    const text = String(data);
    for (let i = 0; i < text.length; i++)
      if (text.charCodeAt(i) > 255)
        throw new WebError('btoa takes characters up to U+00FF', 'InvalidCharacterError');
    return base64Of(text);
  }

  function atob(data: unknown): string {
    let text = String(data).replace(/[\t\n\f\r ]/g, '');
    if (text.length % 4 === 0) text = text.replace(/={1,2}$/, '');
    if (text.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(text))
      throw new WebError('atob takes base64', 'InvalidCharacterError');
    let binary = '';
    let buffer = 0;
    let bits = 0;
    for (let i = 0; i < text.length; i++) {
      buffer = ((buffer << 6) | BASE64.indexOf(text.charAt(i))) & 0xffff;
      bits += 6;
      if (bits >= 8) {
        bits -= 8;
        binary += fromCharCode((buffer >> bits) & 255);
      }
    }
    return binary;
  }

  /** The algorithm as Node's crypto calls it: `SHA-256`, `sha256` and `{ name: 'SHA-256' }` are the same. */
  function algorithmOf(given: unknown): string {
    const name = typeof given === 'object' && given !== null ? (given as { name?: unknown }).name : given;
    return String(name).toLowerCase().replace('-', '');
  }

  function argument(data: unknown): readonly [text: string, kind: 'bytes' | 'text'] {
    if (isBytes(data)) return [binaryOf(data), 'bytes'];
    if (typeof data === 'string') return [data, 'text'];
    throw new TypeError('what is hashed must be a text, an ArrayBuffer or a typed array');
  }

  function answered(binary: string | undefined, algorithm: unknown): string {
    if (binary !== undefined) return binary;
    throw new WebError(`cannot hash by ${String(algorithm)}, or too much`, 'NotSupportedError');
  }

  function digestOf(algorithm: unknown, data: unknown): string {
    return answered(host('hash', algorithmOf(algorithm), ...argument(data)), algorithm);
  }

  function hmacOf(algorithm: unknown, key: unknown, data: unknown): string {
    const [[keyText, ofKey], [text, ofData]] = [argument(key), argument(data)];
    return answered(host('hmac', algorithmOf(algorithm), keyText, text, `${ofKey},${ofData}`), algorithm);
  }

  function encoded(binary: string, encoding: unknown): string | Uint8Array {
    switch (encoding) {
      case 'bytes':
        return bytesIn(binary);
      case 'base64':
        return base64Of(binary);
      case 'base64url':
        return base64Of(binary).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '');
      case 'hex': {
        let hex = '';
        for (let i = 0; i < binary.length; i++) hex += binary.charCodeAt(i).toString(16).padStart(2, '0');
        return hex;
      }
      default:
        throw new TypeError('the encoding must be hex, base64, base64url or bytes');
    }
  }

  class HmacKey {
    readonly #hash: unknown;
    readonly #bytes: Uint8Array;
    constructor(hash: unknown, bytes: Uint8Array) {
      this.#hash = hash;
      this.#bytes = bytes;
    }
    signature(data: unknown): string {
      return hmacOf(this.#hash, this.#bytes, data);
    }
  }

  const subtle = {
    async digest(algorithm: unknown, data: unknown): Promise<ArrayBuffer> {
      if (!isBytes(data)) throw new TypeError('digest takes an ArrayBuffer or a typed array');
      return bytesIn(digestOf(algorithm, data)).buffer;
    },
    async importKey(format: unknown, key: unknown, algorithm: unknown): Promise<HmacKey> {
      const { hash } = (algorithm ?? {}) as { readonly hash?: unknown };
      if (format !== 'raw' || algorithmOf(algorithm) !== 'hmac' || !isBytes(key))
        throw new WebError('only raw keys of HMAC can be imported', 'NotSupportedError');
      return new HmacKey(hash, bytesOf(key).slice());
    },
    async sign(_algorithm: unknown, key: unknown, data: unknown): Promise<ArrayBuffer> {
      if (!(key instanceof HmacKey)) throw new TypeError('sign takes a key that importKey gave');
      return bytesIn(key.signature(data)).buffer;
    },
  };

  function byte(): number {
    return Math.floor(random() * 256);
  }

  const crypto = {
    hash: (algorithm: unknown, data: unknown, encoding: unknown = 'hex') =>
      encoded(digestOf(algorithm, data), encoding),
    hmac: (algorithm: unknown, key: unknown, data: unknown, encoding: unknown = 'hex') =>
      encoded(hmacOf(algorithm, key, data), encoding),
    md5: (data: unknown, encoding: unknown = 'hex') => encoded(digestOf('md5', data), encoding),
    sha1: (data: unknown, encoding: unknown = 'hex') => encoded(digestOf('sha1', data), encoding),
    sha256: (data: unknown, encoding: unknown = 'hex') => encoded(digestOf('sha256', data), encoding),
    sha512: (data: unknown, encoding: unknown = 'hex') => encoded(digestOf('sha512', data), encoding),
    subtle,
    getRandomValues(array: unknown): unknown {
      if (!isView(array)) throw new TypeError('getRandomValues takes a typed array');
      const bytes = bytesOf(array);
      for (let i = 0; i < bytes.length; i++) bytes[i] = byte();
      return array;
    },
    randomUUID(): string {
      const bytes = Array.from({ length: 16 }, byte);
      bytes[6] = ((bytes[6] ?? 0) & 15) | 64;
      bytes[8] = ((bytes[8] ?? 0) & 63) | 128;
      const hex = bytes.map((one) => one.toString(16).padStart(2, '0')).join('');
      return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
    },
  };

  /** UTF-8; half a surrogate pair becomes U+FFFD. */
  function utf8Of(text: string): Uint8Array<ArrayBuffer> {
    return bytesIn(unescape(encodeURIComponent(text.toWellFormed())));
  }

  class TextEncoder {
    get encoding(): string {
      return 'utf-8';
    }
    encode(text: unknown = ''): Uint8Array {
      return utf8Of(String(text));
    }
    encodeInto(text: unknown, into: Uint8Array): { read: number; written: number } {
      let read = 0;
      let written = 0;
      for (const character of String(text)) {
        const bytes = utf8Of(character);
        if (written + bytes.length > into.length) break;
        into.set(bytes, written);
        written += bytes.length;
        read += character.length;
      }
      return { read, written };
    }
  }

  const LABELS = new Map([
    ...['utf-8', 'utf8', 'unicode-1-1-utf-8'].map((label) => [label, 'utf-8'] as const),
    ...['utf-16', 'utf-16le', 'ucs-2'].map((label) => [label, 'utf-16le'] as const),
  ]);

  /** As in the Encoding Standard, the longest valid start of an invalid sequence becomes one U+FFFD. */
  function utf8In(bytes: Uint8Array, fatal: boolean): string {
    let text = '';
    for (let i = 0; i < bytes.length; ) {
      const first = bytes[i++] ?? 0;
      if (first < 0x80) {
        text += fromCharCode(first);
        continue;
      }
      let more = first >= 0xf0 && first < 0xf5 ? 3 : first >= 0xe0 && first < 0xf0 ? 2 : 0;
      if (first >= 0xc2 && first < 0xe0) more = 1;
      let code = first & (0x7f >> (more + 1));
      let low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
      let high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
      let isWhole = more > 0;
      for (; isWhole && more > 0; more--) {
        const next = bytes[i] ?? 0;
        if (next < low || next > high) isWhole = false;
        else {
          code = (code << 6) | (next & 63);
          i++;
        }
        [low, high] = [0x80, 0xbf];
      }
      if (!isWhole && fatal) throw new TypeError('The encoded data was not valid for encoding utf-8');
      text += isWhole ? String.fromCodePoint(code) : '\uFFFD';
    }
    return text;
  }

  class TextDecoder {
    readonly #encoding: string;
    readonly #fatal: boolean;
    readonly #ignoreBOM: boolean;
    constructor(label: unknown = 'utf-8', options: { fatal?: unknown; ignoreBOM?: unknown } = {}) {
      const encoding = LABELS.get(String(label).trim().toLowerCase());
      if (encoding === undefined) throw new RangeError(`the encoding ${String(label)} is not supported`);
      this.#encoding = encoding;
      this.#fatal = Boolean(options.fatal);
      this.#ignoreBOM = Boolean(options.ignoreBOM);
    }
    get encoding(): string {
      return this.#encoding;
    }
    get fatal(): boolean {
      return this.#fatal;
    }
    get ignoreBOM(): boolean {
      return this.#ignoreBOM;
    }
    decode(given?: unknown): string {
      if (given === undefined) return '';
      if (!isBytes(given)) throw new TypeError('decode takes an ArrayBuffer or a typed array');
      const text = this.#read(bytesOf(given));
      return !this.#ignoreBOM && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
    }
    #read(bytes: Uint8Array): string {
      if (this.#encoding === 'utf-8') return utf8In(bytes, this.#fatal);
      let text = '';
      for (let i = 0; i + 1 < bytes.length; i += 2)
        text += fromCharCode((bytes[i] ?? 0) | ((bytes[i + 1] ?? 0) << 8));
      if (bytes.length % 2 === 1) text += '\uFFFD';
      if (this.#fatal && (bytes.length % 2 === 1 || !text.isWellFormed()))
        throw new TypeError('The encoded data was not valid for encoding utf-16le');
      return text.toWellFormed();
    }
  }

  const ERRORS = new Map<string, ErrorConstructor>(
    [Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError].map((error) => [
      error.name,
      error as ErrorConstructor,
    ]),
  );

  function refuse(value: unknown): never {
    throw new WebError(
      `${typeof value === 'symbol' ? 'a symbol' : `a ${typeof value}`} could not be cloned`,
      'DataCloneError',
    );
  }

  function cloneOf(value: unknown, seen: Map<object, unknown>): unknown {
    if (typeof value === 'function' || typeof value === 'symbol') return refuse(value);
    if (typeof value !== 'object' || value === null) return value;
    if (seen.has(value)) return seen.get(value);
    const keep = <Made extends object>(made: Made): Made => {
      seen.set(value, made);
      return made;
    };
    if (value instanceof Date) return keep(new Date(value.getTime()));
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return keep(value.slice(0));
    if (isView(value)) {
      const buffer = cloneOf(value.buffer, seen) as ArrayBuffer;
      const length = value instanceof DataView ? value.byteLength : (value as Uint8Array).length;
      const View = value.constructor as new (buffer: ArrayBuffer, offset: number, length: number) => object;
      return keep(new View(buffer, value.byteOffset, length));
    }
    if (value instanceof Boolean || value instanceof Number || value instanceof String)
      return keep(Object(value.valueOf()) as object);
    if (value instanceof Map) {
      const map = keep(new Map());
      for (const [key, one] of [...value]) map.set(cloneOf(key, seen), cloneOf(one, seen));
      return map;
    }
    if (value instanceof Set) {
      const set = keep(new Set());
      for (const one of [...value]) set.add(cloneOf(one, seen));
      return set;
    }
    if (value instanceof Error) {
      const made = keep(new (ERRORS.get(value.name) ?? Error)(value.message));
      if ('cause' in value) put(made, 'cause', cloneOf(value.cause, seen));
      return made;
    }
    if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet)
      return refuse(value);
    const made = keep(Array.isArray(value) ? new Array(value.length) : {});
    const members = value as Record<string, unknown>;
    for (const name of Object.keys(members)) put(made, name, cloneOf(members[name], seen));
    return made;
  }

  function put(owner: object, name: string, value: unknown): void {
    defineProperty(owner, name, { value, writable: true, enumerable: true, configurable: true });
  }

  function structuredClone(value: unknown): unknown {
    return cloneOf(value, new Map());
  }

  publish('crypto', crypto);
  for (const [name, value] of Object.entries({ btoa, atob, TextEncoder, TextDecoder, structuredClone }))
    publish(name, value);
  publish('DOMException', WebError);
  // Published under a name, so that it is frozen with the other globals.
  publish('CryptoKey', HmacKey);
}

/**
 * Adds `URL` and `URLSearchParams` to the globals of an isolate. URLs are parsed and serialized by the worker's Node, so
 * they follow the URL Standard. Its source text is taken with `toString`, so it must not use anything from outside.
 */
export function webUrl(host: WebHost): void {
  const { defineProperty } = Object;
  const { parse } = JSON;
  type Parts = readonly string[];
  /** As `host` returns them. The origin cannot be set. */
  const names = 'origin href protocol username password host hostname port pathname search hash'.split(' ');
  const HREF = names.indexOf('href');
  const SEARCH = names.indexOf('search');

  function unescaped(text: string): string {
    const spaced = text.replace(/\+/g, ' ');
    if (!spaced.includes('%')) return spaced;
    const bytes: number[] = [];
    const all = new TextEncoder().encode(spaced);
    for (let i = 0; i < all.length; i++) {
      const hex = all[i] === 37 ? String.fromCharCode(all[i + 1] ?? 0, all[i + 2] ?? 0) : '';
      if (/^[\da-fA-F]{2}$/.test(hex)) {
        bytes.push(Number.parseInt(hex, 16));
        i += 2;
      } else bytes.push(all[i] ?? 0);
    }
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(new Uint8Array(bytes));
  }

  function escaped(text: string): string {
    return encodeURIComponent(text.toWellFormed())
      .replace(/%20/g, '+')
      .replace(/[!'()~]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
  }

  function pairsIn(text: string): [string, string][] {
    const parts = text.split('&').filter((part) => part !== '');
    return parts.map((part) => {
      const at = part.indexOf('=');
      return at < 0 ? [unescaped(part), ''] : [unescaped(part.slice(0, at)), unescaped(part.slice(at + 1))];
    });
  }

  function pairsOf(given: unknown): [string, string][] {
    if (typeof given === 'object' && given !== null) {
      if (!(Symbol.iterator in given))
        return Object.entries(given).map(([name, value]) => [text(name), text(value)]);
      return [...(given as Iterable<Iterable<unknown>>)].map((pair) => {
        const [name, value, ...others] = [...pair];
        if (value === undefined || others.length > 0)
          throw new TypeError('each pair must be a name and a value');
        return [text(name), text(value)];
      });
    }
    const query = given === undefined ? '' : text(given);
    return pairsIn(query.startsWith('?') ? query.slice(1) : query);
  }

  function text(value: unknown): string {
    return String(value).toWellFormed();
  }

  class URLSearchParams {
    #pairs: [string, string][];
    #changed: (() => void) | undefined;

    constructor(init?: unknown) {
      this.#pairs = pairsOf(init);
    }
    static follow(params: URLSearchParams, changed: () => void): void {
      params.#changed = changed;
    }
    static refresh(params: URLSearchParams, search: string): void {
      params.#pairs = pairsOf(search);
    }
    get size(): number {
      return this.#pairs.length;
    }
    append(name: unknown, value: unknown): void {
      this.#pairs.push([text(name), text(value)]);
      this.#changed?.();
    }
    delete(name: unknown, value?: unknown): void {
      const isGone = ([key, one]: [string, string]) =>
        key === text(name) && (value === undefined || one === text(value));
      this.#pairs = this.#pairs.filter((pair) => !isGone(pair));
      this.#changed?.();
    }
    get(name: unknown): string | null {
      return this.#pairs.find(([key]) => key === text(name))?.[1] ?? null;
    }
    getAll(name: unknown): string[] {
      return this.#pairs.filter(([key]) => key === text(name)).map(([, value]) => value);
    }
    has(name: unknown, value?: unknown): boolean {
      return this.#pairs.some(
        ([key, one]) => key === text(name) && (value === undefined || one === text(value)),
      );
    }
    set(name: unknown, value: unknown): void {
      const at = this.#pairs.findIndex(([key]) => key === text(name));
      if (at < 0) this.#pairs.push([text(name), text(value)]);
      else {
        this.#pairs = this.#pairs.filter(([key], index) => index <= at || key !== text(name));
        this.#pairs[at] = [text(name), text(value)];
      }
      this.#changed?.();
    }
    sort(): void {
      this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      this.#changed?.();
    }
    forEach(callback: (value: string, name: string, all: URLSearchParams) => void, self?: unknown): void {
      for (const [name, value] of this.#pairs) callback.call(self, value, name, this);
    }
    keys(): IterableIterator<string> {
      return this.#pairs.map(([name]) => name)[Symbol.iterator]();
    }
    values(): IterableIterator<string> {
      return this.#pairs.map(([, value]) => value)[Symbol.iterator]();
    }
    entries(): IterableIterator<[string, string]> {
      return this.#pairs.map(([name, value]): [string, string] => [name, value])[Symbol.iterator]();
    }
    [Symbol.iterator](): IterableIterator<[string, string]> {
      return this.entries();
    }
    toString(): string {
      return this.#pairs.map(([name, value]) => `${escaped(name)}=${escaped(value)}`).join('&');
    }
  }
  const { follow, refresh } = URLSearchParams as unknown as {
    follow(params: URLSearchParams, changed: () => void): void;
    refresh(params: URLSearchParams, search: string): void;
  };
  Reflect.deleteProperty(URLSearchParams, 'follow');
  Reflect.deleteProperty(URLSearchParams, 'refresh');

  function read(given: unknown, base: unknown): Parts | undefined {
    const parts = base === undefined ? host('url', text(given)) : host('url', text(given), text(base));
    return parts === undefined ? undefined : (parse(parts) as Parts);
  }

  class URL {
    #parts: Parts;
    #params: URLSearchParams | undefined;

    static {
      for (const [index, name] of names.entries()) {
        const accessors = {
          get [name](): string {
            return (this as unknown as URL).#part(index);
          },
          set [name](value: unknown) {
            (this as unknown as URL).#set(name, value);
          },
        };
        const { get, set } = Object.getOwnPropertyDescriptor(accessors, name) as Required<PropertyDescriptor>;
        const setter = name === 'origin' ? {} : { set };
        defineProperty(URL.prototype, name, { get, ...setter, enumerable: false, configurable: true });
      }
    }
    constructor(given: unknown, base?: unknown) {
      const parts = read(given, base);
      if (parts === undefined) throw new TypeError(`Invalid URL: ${text(given).slice(0, 200)}`);
      this.#parts = parts;
    }
    static canParse(given: unknown, base?: unknown): boolean {
      return read(given, base) !== undefined;
    }
    static parse(given: unknown, base?: unknown): URL | null {
      return URL.canParse(given, base) ? new URL(given, base) : null;
    }
    #part(index: number): string {
      return this.#parts[index] ?? '';
    }
    #set(name: string, value: unknown): void {
      const parts = host('set-url', this.#part(HREF), name, text(value));
      if (parts !== undefined) this.#parts = parse(parts) as Parts;
      else if (name === 'href') throw new TypeError(`Invalid URL: ${text(value).slice(0, 200)}`);
      if (this.#params !== undefined) refresh(this.#params, this.#part(SEARCH));
    }
    get searchParams(): URLSearchParams {
      if (this.#params !== undefined) return this.#params;
      const params = new URLSearchParams(this.#part(SEARCH));
      follow(params, () => {
        const parts = host('set-url', this.#part(HREF), 'search', params.toString());
        if (parts !== undefined) this.#parts = parse(parts) as Parts;
      });
      this.#params = params;
      return params;
    }
    toString(): string {
      return this.#part(HREF);
    }
    toJSON(): string {
      return this.#part(HREF);
    }
  }

  for (const [name, value] of Object.entries({ URL, URLSearchParams }))
    defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
}

/**
 * Operations of the worker's Node for code inside an isolate. Arguments and result are texts; undefined if the operation
 * fails. They have no side effects, keep no state, and never throw.
 */
export type WebHost = (operation: string, ...texts: readonly string[]) => string | undefined;

/** Most characters of an argument; an event has 32 KiB. */
const MAX_CHARS = 1024 * 1024;
const ALGORITHMS: ReadonlySet<string> = new Set(['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512']);
/** The writable properties of `URL`. */
const PARTS = [
  'href',
  'protocol',
  'username',
  'password',
  'host',
  'hostname',
  'port',
  'pathname',
  'search',
  'hash',
] as const;

export const webHost: WebHost = (operation, ...texts) => {
  if (texts.some((text) => typeof text !== 'string' || text.length > MAX_CHARS)) return undefined;
  const [first = '', second = '', third = '', fourth = ''] = texts;
  try {
    switch (operation) {
      case 'hash':
        if (!ALGORITHMS.has(first)) return undefined;
        return createHash(first).update(second, encodingOf(third)).digest().toString('latin1');
      case 'hmac': {
        if (!ALGORITHMS.has(first)) return undefined;
        const [algorithm, key, data, encodings] = [first, second, third, fourth];
        const [ofKey = '', ofData = ''] = encodings.split(',');
        return createHmac(algorithm, Buffer.from(key, encodingOf(ofKey)))
          .update(data, encodingOf(ofData))
          .digest()
          .toString('latin1');
      }
      case 'url':
        return partsOf(texts.length > 1 ? new URL(first, second) : new URL(first));
      case 'set-url': {
        const url = new URL(first);
        const name = PARTS.find((part) => part === second);
        if (name === undefined) return undefined;
        url[name] = third;
        return partsOf(url);
      }
      default:
        return undefined;
    }
  } catch {
    return undefined;
  }
};

/** Bytes are passed as a text with one character for each. */
function encodingOf(kind: string): 'utf8' | 'latin1' {
  return kind === 'bytes' ? 'latin1' : 'utf8';
}

function partsOf(url: URL): string {
  return JSON.stringify([url.origin, ...PARTS.map((part) => url[part])]);
}
