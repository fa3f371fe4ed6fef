import type { WebHost } from './web-host.ts';

/**
 * Adds `URL` and `URLSearchParams` to the globals of an isolate. URLs are parsed and serialized by the worker's Node, so
 * they follow the URL Standard. Its source text is taken with `toString`, so it must not use anything from outside.
 */
export function webUrl(host: WebHost): void {
  const { defineProperty } = Object;
  const { parse } = JSON;
  type Parts = readonly string[];
  const [ORIGIN, HREF, PROTOCOL, USERNAME, PASSWORD, HOST, HOSTNAME, PORT, PATHNAME, SEARCH, HASH] = [
    ...[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
  ] as [number, number, number, number, number, number, number, number, number, number, number];

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
    get origin(): string {
      return this.#part(ORIGIN);
    }
    get href(): string {
      return this.#part(HREF);
    }
    set href(value: unknown) {
      this.#set('href', value);
    }
    get protocol(): string {
      return this.#part(PROTOCOL);
    }
    set protocol(value: unknown) {
      this.#set('protocol', value);
    }
    get username(): string {
      return this.#part(USERNAME);
    }
    set username(value: unknown) {
      this.#set('username', value);
    }
    get password(): string {
      return this.#part(PASSWORD);
    }
    set password(value: unknown) {
      this.#set('password', value);
    }
    get host(): string {
      return this.#part(HOST);
    }
    set host(value: unknown) {
      this.#set('host', value);
    }
    get hostname(): string {
      return this.#part(HOSTNAME);
    }
    set hostname(value: unknown) {
      this.#set('hostname', value);
    }
    get port(): string {
      return this.#part(PORT);
    }
    set port(value: unknown) {
      this.#set('port', value);
    }
    get pathname(): string {
      return this.#part(PATHNAME);
    }
    set pathname(value: unknown) {
      this.#set('pathname', value);
    }
    get search(): string {
      return this.#part(SEARCH);
    }
    set search(value: unknown) {
      this.#set('search', value);
    }
    get hash(): string {
      return this.#part(HASH);
    }
    set hash(value: unknown) {
      this.#set('hash', value);
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
      return this.href;
    }
    toJSON(): string {
      return this.href;
    }
  }

  for (const [name, value] of Object.entries({ URL, URLSearchParams }))
    defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
}
