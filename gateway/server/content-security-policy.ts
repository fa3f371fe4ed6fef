/** The value of `Content-Security-Policy`: sources that `directives` do not name are forbidden. */
export function contentSecurityPolicy(directives: Readonly<Record<string, readonly string[]>>): string {
  const all = {
    'default-src': ["'none'"],
    ...directives,
    'base-uri': ["'none'"],
    'form-action': directives['form-action'] ?? ["'none'"],
  };
  return Object.entries(all)
    .map(([name, sources]) => `${name} ${sources.join(' ')}`)
    .join('; ');
}
