/** Which methods each path has, to answer one it has not by 405 and those it has. */
export class AllowedMethods {
  readonly #routes: { readonly path: RegExp; readonly methods: readonly string[] }[] = [];

  /** `url`: as routes write it, with `:parameters`. One with a `*` stands for any path, which says nothing of this one. */
  add(url: string, methods: string | readonly string[]): void {
    if (url.includes('*')) return;
    const segments = url
      .split('/')
      .map((segment) => (segment.startsWith(':') ? '[^/]+' : segment.replaceAll(/[^\w-]/g, '\\$&')));
    this.#routes.push({ path: new RegExp(`^${segments.join('/')}/?$`), methods: [methods].flat() });
  }

  /** The methods of a URL's path, sorted; none where there is no such path. */
  of(url: string): readonly string[] {
    const [path = ''] = url.split('?', 1);
    const methods = this.#routes.filter((route) => route.path.test(path)).flatMap((route) => route.methods);
    return [...new Set(methods)].sort();
  }
}
